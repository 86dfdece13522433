/** `stablehooks trigger`: signs an event and sends it, or has a sandbox fire it. */
import { Command } from 'commander';
import type { UnknownEvent } from 'stablehooks';
import { type Answer, isDelivered, statusOf } from './delivery.js';
import { type DeliveryRow, printRow, summarise } from './delivery-report.js';
import { parseWait } from './duration.js';
import { readDraft } from './event-draft.js';
import { readEventType } from './event-type.js';
import { EXIT, type ExitCode } from './exit.js';
import { usageError } from './failure.js';
import { collect, parseCount, parseRate } from './flag-value.js';
import { interruptedExit } from './interruption.js';
import { pace } from './pace.js';
import { fireInSandbox } from './sandbox-firing.js';
import { parseUrl } from './settings.js';
import { createSender, type Sender, toBytes } from './signed-delivery.js';
import { addExample, addSecretFlags, addServiceFlags, type Task, toAction } from './task.js';

interface TriggerFlags {
  readonly to?: string;
  readonly set: readonly string[];
  readonly payload?: string;
  readonly count: number;
  readonly rate?: number;
  readonly duplicate?: boolean;
  readonly forge?: boolean;
  readonly tamper?: boolean;
  readonly timeout: number;
}

/** The command. */
export function triggerCommand(): Command {
  const command = new Command('trigger')
    .argument('<type>', 'event type, such as transfer.settled')
    .option('--to <url>', 'endpoint to send to (default: the sandbox delivers it)')
    .option(
      '--set <assignment>',
      'payload.NAME=TEXT or payload.NAME:=JSON; also id and created_at',
      collect,
      [],
    )
    .option('--payload <file>', 'JSON object to send as the payload')
    .option('--count <number>', 'how many events', parseCount, 1)
    .option('--rate <number>', 'how many a second (default: one after the other)', parseRate)
    .option('--duplicate', 'send each twice')
    .option('--forge', 'sign with another secret; good is when it is refused')
    .option('--tamper', 'change the body after signing; good is when it is refused')
    .option('--timeout <duration>', 'how long to wait for an answer', parseWait, 10_000);
  addServiceFlags(addSecretFlags(command));
  addExample(command, [
    'stablehooks trigger transfer.settled --to http://localhost:3000/hooks --set payload.amount=10.50',
  ]);
  return toAction(command, trigger);
}

/** Sends one event and tells how that went; the sandbox gives it another id. */
type Fire = (event: UnknownEvent) => Promise<DeliveryRow>;

async function trigger(task: Task<TriggerFlags>): Promise<ExitCode> {
  const { args, flags, printer, signal } = task;
  const type = readEventType(args[0] ?? '');
  const draft = await readDraft({ type, payloadFile: flags.payload, assignments: flags.set });
  const fire = await chooseFire(task);
  const times = flags.duplicate ? 2 : 1;
  const total = flags.count * times;
  const rows: Pick<DeliveryRow, 'answer'>[] = [];
  const progress = printer.progress('trigger', { total });

  await pace(flags.count, { perSecond: flags.rate, signal }, async () => {
    const event = draft();
    for (let time = 0; time < times; time++) {
      const row = await fire(event);
      rows.push({ answer: row.answer });
      printRow(printer, row);
      progress.show(rows.length);
    }
  });
  progress.clear();
  if (total > 1 || signal.aborted) printer.note(summarise(rows, { total }));
  if (signal.aborted) return interruptedExit();
  if (rows.some(({ answer }) => answer.kind === 'unreachable')) return EXIT.unreachable;
  const wanted = flags.forge || flags.tamper ? isRefused : isDelivered;
  return rows.every(({ answer }) => wanted(answer)) ? EXIT.good : EXIT.failed;
}

async function chooseFire({ flags, settings, signal }: Task<TriggerFlags>): Promise<Fire> {
  const { to, timeout } = flags;
  if (to === undefined) {
    if (flags.forge || flags.tamper)
      throw usageError('--forge and --tamper send the event themselves: pass --to URL.');
    if (flags.set.some((assignment) => !assignment.startsWith('payload'))) {
      throw usageError('The sandbox chooses id and created_at itself. Pass --to URL to set them.');
    }
    return fireInSandbox(settings, { signal, timeoutMs: timeout });
  }
  // Not cut short by Ctrl-C: what was begun is finished and counted.
  const sender = await createSender(parseUrl(to, { name: '--to' }), { settings, timeoutMs: timeout });
  return async (event) => ({ event, answer: await sendAs(event, { sender, flags }) });
}

function sendAs(
  event: UnknownEvent,
  { sender, flags }: { readonly sender: Sender; readonly flags: TriggerFlags },
): Promise<Answer> {
  const signed = toBytes(event);
  const body = flags.tamper ? toBytes({ ...event, payload: { ...event.payload, tampered: true } }) : signed;
  return sender.sendBytes(body, { signed, ...(flags.forge && { secret: 'forged' }) });
}

function isRefused(answer: Answer): boolean {
  return statusOf(answer) >= 400 && statusOf(answer) < 500;
}
