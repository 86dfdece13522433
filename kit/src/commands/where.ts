import { Command } from 'commander';
import { createdAtMs, encodeEvent } from 'stablehooks';
import { findMovement } from '../explain/movement.js';
import { usageError } from '../io/errors.js';
import { addInboxAction, addInboxFlags, type InboxFlags, type OpenInbox } from '../io/inbox.js';
import { noteUnread } from '../io/inbox-filter.js';
import { EXIT, toPlain, toPrintedJson, toTable } from '../io/output.js';
import type { CommandContext } from '../io/settings.js';

export function whereCommand(): Command {
  const command = addInboxFlags(
    new Command('where')
      .argument('<key>', 'event id, ordering key, or a value in the payload such as a transfer id')
      .option('--exact', 'also print the exact text of each event'),
  );
  return addInboxAction(command, where, ['stablehooks where trf_01 --inbox env:DATABASE_URL']);
}

async function where(
  inbox: OpenInbox,
  { args, flags, printer, signal }: CommandContext<InboxFlags & { readonly exact?: boolean }>,
) {
  const key = (args[0] ?? '').trim();
  if (key === '')
    throw usageError('The key is empty. Pass an event id, an ordering key or a value in the payload.');
  const { found, unread, proven, proof } = await findMovement(inbox, key, signal);
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
  const missing = found.length === 0 ? `The inbox has no event for ${toPlain(key)}. ` : '';
  printer.print({ text: `${missing}${proof}`, data: { found: found.length, proven } });
  noteUnread(printer, unread);
  return found.length === 0 ? EXIT.failed : EXIT.good;
}
