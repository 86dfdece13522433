/** `stablehooks inbox redrive`: dead events are wanted again, and sent to an endpoint that runs them. */
import { Command } from 'commander';
import type { InboxOperations, InboxRecord } from 'stablehooks';
import { type Answer, describeAnswer, isDelivered } from './delivery.js';
import { type DeliveryRow, printRow, summarise } from './delivery-report.js';
import { parseWait } from './duration.js';
import { EXIT, type ExitCode } from './exit.js';
import { usageError } from './failure.js';
import type { OpenInbox } from './inbox-server.js';
import { interruptedExit } from './interruption.js';
import { openInbox } from './open-inbox.js';
import { parseUrl } from './settings.js';
import { createSender, type Sender } from './signed-delivery.js';
import { toPlain } from './table.js';
import { addExample, addSecretFlags, type Task, toAction } from './task.js';

/** What the first argument of each of these commands is. */
export const INBOX_PLACE = 'SQLite file, postgres: or redis: URL, or env:NAME of a variable that holds it';

interface RedriveFlags {
  readonly to?: string;
  readonly timeout: number;
}

/** The command. */
export function redriveCommand(): Command {
  const command = new Command('redrive')
    .description('run dead events again')
    .argument('<inbox>', INBOX_PLACE)
    .argument('[ids...]', 'ids of the events (default: all that are dead)')
    .option('--to <url>', "endpoint that runs them (default: the app's own redrive does)")
    .option('--timeout <duration>', 'how long to wait for an answer', parseWait, 10_000);
  addSecretFlags(command);
  addExample(command, ['stablehooks inbox redrive events.db --to http://localhost:3000/hooks']);
  return toAction(command, redrive);
}

async function redrive({ args, flags, settings, printer, signal }: Task<RedriveFlags>): Promise<ExitCode> {
  const [place = '', ...ids] = args;
  const sender =
    flags.to === undefined
      ? undefined
      : await createSender(parseUrl(flags.to, { name: '--to' }), { settings, timeoutMs: flags.timeout });
  const inbox = await openInbox(place, { create: false });
  try {
    const dead = await pickDead(inbox, new Set(ids));
    if (sender === undefined) {
      let requeued = 0;
      for (const { id } of dead) if (await inbox.requeue(id)) requeued += 1;
      const text = `${requeued} events requeued; the receiver's redrive() or its poller runs them.`;
      printer.print({ text, data: { requeued } });
      return EXIT.good;
    }
    const rows: DeliveryRow[] = [];
    let elsewhere = 0;
    const progress = printer.progress('redrive', { total: dead.length });
    for (const { event } of dead) {
      if (signal.aborted || rows.at(-1)?.answer.kind === 'unreachable') break;
      if (event === null) continue;
      // Somebody else took it in the meantime: sent from here, too, it could run twice.
      if (!(await inbox.requeue(event.id))) {
        elsewhere += 1;
        printer.note(`${toPlain(event.id)} is not dead any more, and is left to what requeued it.`);
        continue;
      }
      const row = { event, answer: await runAgain(event, { inbox, sender }) };
      rows.push(row);
      printRow(printer, row);
      progress.show(rows.length + elsewhere);
    }
    progress.clear();
    const total = dead.length - elsewhere;
    printer.note(`${summarise(rows, { total })}. What was not taken is still in the inbox.`);
    if (signal.aborted) return interruptedExit();
    if (rows.some(({ answer }) => answer.kind === 'unreachable')) return EXIT.unreachable;
    return rows.every(({ answer }) => isDelivered(answer)) ? EXIT.good : EXIT.failed;
  } finally {
    await inbox.close();
  }
}

/** How many records are read at a time. */
const PAGE = 500;

async function pickDead(inbox: InboxOperations, ids: ReadonlySet<string>): Promise<readonly InboxRecord[]> {
  if (ids.size > 0) {
    const found = await Promise.all([...ids].map(async (id) => ({ id, record: await inbox.find(id) })));
    const wrong = found.find(({ record }) => record?.state !== 'dead');
    if (wrong !== undefined) {
      throw usageError(
        `${toPlain(wrong.id)} is ${wrong.record?.state ?? 'not in this inbox'}, not dead. See \`stablehooks inbox list --state dead\`.`,
      );
    }
    return found.flatMap(({ record }) => record ?? []);
  }
  const dead: InboxRecord[] = [];
  for (let more = true; more; ) {
    const page = await inbox.list({ state: 'dead', limit: PAGE, after: dead.at(-1)?.id });
    dead.push(...page);
    more = page.length === PAGE;
  }
  return dead;
}

/**
 * Sends the event, which was requeued. The endpoint may use this very inbox: then it settles the event itself,
 * and no lease of ours may stand in its way. Where it does not, the event is settled here by its answer.
 */
async function runAgain(
  event: NonNullable<InboxRecord['event']>,
  { inbox, sender }: { readonly inbox: OpenInbox; readonly sender: Sender },
): Promise<Answer> {
  const answer = await sender.send(event);
  const record = await inbox.find(event.id);
  if (record?.state !== 'received') return answer;
  const claim = await inbox.claim(event, { leaseMs: LEASE_MS, origin: 'redrive' });
  if (claim.state !== 'claimed') return answer;
  if (isDelivered(answer)) await inbox.complete(claim.lease);
  else await inbox.fail(claim.lease, { retryAfterMs: null, error: `redrive: ${describeAnswer(answer)}` });
  return answer;
}

/** Long enough to settle it, which is the next step. */
const LEASE_MS = 5_000;
