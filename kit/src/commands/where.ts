/** The history of one movement: its events in order, and what polls prove about later ones. */
import { Command } from 'commander';
import { createdAtMs, encodeEvent, type InboxRecord, type UnknownEvent } from 'stablehooks';
import { type ProvenSpan, provenSpan, readPollState } from 'stablehooks/catch-up';
import { recordPages } from 'stablehooks/reconcile';
import { addInboxAction, addInboxFlags, type InboxFlags, type OpenInbox } from '../io/inbox.js';
import { countOf, EXIT, toPlain, toPrintedJson, toTable } from '../io/output.js';
import { type CommandContext, isObject } from '../io/settings.js';

export function whereCommand(): Command {
  const command = addInboxFlags(
    new Command('where')
      .argument('<key>', 'ordering key, or a value of the payload such as the id of a transfer')
      .option('--exact', 'also print the exact text of each event'),
  );
  return addInboxAction(command, where, ['stablehooks where trf_01 --inbox env:DATABASE_URL']);
}

interface WhereFlags extends InboxFlags {
  readonly exact?: boolean;
}

type Found = InboxRecord & { readonly event: UnknownEvent };

const PAGE = 500;

async function where(
  inbox: OpenInbox,
  { args: [key = ''], flags, printer, signal }: CommandContext<WhereFlags>,
) {
  // Read before the events, because a poll that runs meanwhile may prove spans whose events were not read.
  const state = await readPollState(inbox);
  const found: Found[] = [];
  const unread: InboxRecord[] = [];
  for await (const page of recordPages(inbox, { limit: PAGE })) {
    signal.throwIfAborted();
    for (const record of page) {
      const { event } = record;
      if (event === null) unread.push(record);
      else if (record.key === key || holds(event.payload, key)) found.push({ ...record, event });
    }
  }
  found.sort((a, b) => createdAtMs(a.event) - createdAtMs(b.event));
  const rows = found.map(({ event, id, type, state: now, attempts, origin }) => [
    ...[new Date(createdAtMs(event)).toISOString(), type, now, String(attempts), origin, id],
  ]);
  const [head = '', ...lines] = toTable(['created', 'type', 'state', 'attempts', 'origin', 'id'], rows).split(
    '\n',
  );
  if (!printer.json && found.length > 0) printer.print({ text: { whole: head }, data: null });
  for (const [index, { event, lastError, ...record }] of found.entries()) {
    const text = encodeEvent(event);
    printer.print({
      text: [
        { whole: lines[index] ?? '' },
        ...(lastError === null ? [] : [`  ${toPlain(lastError)}`]),
        ...(flags.exact ? [{ whole: toPrintedJson(text) }] : []),
      ],
      json: `${JSON.stringify({ ...record, lastError }).slice(0, -1)},"event":${text}}`,
    });
  }
  const last = found.at(-1);
  const from = last === undefined ? Number.NEGATIVE_INFINITY : createdAtMs(last.event);
  // An event whose text is gone may be a later event of the movement.
  const isSearched = unread.every(({ receivedAt }) => receivedAt < from);
  const proven = isSearched ? provenSpan(state, { from }) : null;
  const missing = found.length === 0 ? `The inbox has no event of ${toPlain(key)}. ` : '';
  printer.print({
    text: `${missing}${describeProof(proven, found.length)}`,
    data: { found: found.length, proven },
  });
  if (unread.length > 0) {
    const texts = countOf(unread.length, 'event');
    printer.note(`Not searched: ${texts} whose text is pruned, imported or cannot be read.`);
  }
  return found.length === 0 ? EXIT.failed : EXIT.good;
}

/** Whether a value of the payload is this text. */
function holds(value: unknown, text: string): boolean {
  if (typeof value === 'string') return value === text;
  return (isObject(value) || Array.isArray(value)) && Object.values(value).some((each) => holds(each, text));
}

function describeProof(proven: ProvenSpan | null, found: number): string {
  if (proven === null)
    return 'Nothing is proven of the time after it, so a later event may be missing. See `stablehooks gaps list`.';
  return found === 0
    ? `The list is proven complete from ${proven.from} until ${proven.until}, and has no event of it.`
    : `The list is proven complete until ${proven.until}, and has no later event of it.`;
}
