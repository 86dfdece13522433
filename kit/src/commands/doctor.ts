import { Command } from 'commander';
import { adviceOf } from '../doctor/diagnosis.js';
import { examineEndpoint, LEFT_OUT, totalOf } from '../doctor/examination.js';
import { createReport } from '../doctor/report.js';
import { describeAnswer, outcomeOf } from '../io/answer.js';
import { canAsk, confirm } from '../io/confirm.js';
import { unreachableError, usageError } from '../io/errors.js';
import { addInboxFlags, hasInbox, INBOX_PLACE, type InboxFlags, withInbox } from '../io/inbox.js';
import { countOf, EXIT, interruptedExit, nameSome, type Printer, toPlain } from '../io/output.js';
import { nameEndpoint } from '../io/place.js';
import {
  addAction,
  addSecretFlags,
  type CommandContext,
  parseCount,
  parseEventType,
  parseUrl,
  parseWait,
  readPayload,
  refuseFlags,
  withScheme,
} from '../io/settings.js';
import { isLoopback } from '../other-sites.js';

interface DoctorFlags extends Partial<InboxFlags> {
  readonly runHandlers?: boolean;
  readonly type?: string;
  readonly payload?: string;
  readonly effects?: string;
  readonly allowNotShown?: boolean;
  readonly yes?: boolean;
  readonly timeout: number;
  readonly oversize: number;
}

export function doctorCommand(): Command {
  const command = new Command('doctor')
    .argument('<url>', 'URL of the endpoint')
    .option('--run-handlers', 'also send test events to your real handlers, and check the results')
    .option(
      '--type <type>',
      'type of the test events (default: transfer.settled, or the first type that the endpoint does not ignore)',
    )
    .option(
      '--payload <file>',
      'JSON file to send as the payload of the test events (default: an example payload)',
    )
    .option(
      '--effects <url>',
      'URL that returns how many times an event took effect; must contain {id} in place of the event id',
    )
    .option(
      '--allow-not-shown',
      'exit with 0 even if some checks were inconclusive, provided that the genuine delivery passed and no check failed',
    )
    .option('--yes', 'send test events to a different machine without asking for confirmation')
    .option('--timeout <duration>', 'how long to wait for a response', parseWait, 10_000)
    .option('--oversize <bytes>', 'size of the oversized body, in bytes', parseCount, 2 * 1_048_576);
  addInboxFlags(addSecretFlags(command), {
    about: `inbox of the endpoint, in which doctor discards unfinished test events: ${INBOX_PLACE}`,
    required: false,
  });
  return addAction(command, examine, [
    'stablehooks doctor http://localhost:3000/hooks',
    'stablehooks doctor http://localhost:3000/hooks --run-handlers --inbox app.db',
    '',
    'Without --run-handlers, a correct receiver rejects or ignores every request',
    'and stores nothing. With this flag, your real handlers run on test events.',
    'Test events have payload.test set to true and ids that begin with evt_doctor_.',
    'To test a failure, make your handler throw an error if payload.doctor is',
    '"failing-handler".',
    'Exit code 0 means that every check passed.',
  ]);
}

async function examine(context: CommandContext<DoctorFlags>) {
  const { args, flags, given, settings, printer, signal } = context;
  const { runHandlers = false } = flags;
  const url = parseUrl(withScheme(args[0] ?? ''), 'The URL');
  if (!runHandlers) refuseFlags(given, ['type', 'payload'], 'has no effect without --run-handlers.');
  const options = {
    url,
    runHandlers,
    secret: await settings.secret(),
    signature: settings.signature,
    type: flags.type === undefined ? undefined : parseEventType(flags.type),
    payload: flags.payload === undefined ? undefined : await readPayload(flags.payload),
    timeoutMs: flags.timeout,
    oversizeBytes: flags.oversize,
    effectsUrl: flags.effects === undefined ? undefined : readEffectsUrl(flags.effects),
    signal,
  };
  // A wrong inbox must be rejected before anything is sent.
  if (hasInbox(flags)) await withInbox(flags, async () => undefined);
  if (flags.yes !== true && !isLoopback(new URL(url).hostname)) {
    const host = toPlain(new URL(url).host);
    const risk = runHandlers ? ', and its real handlers will run' : '';
    if (!canAsk()) {
      throw usageError(
        `${host} is not on this machine${risk}. Pass --yes to send test events without asking.`,
      );
    }
    if (!(await confirm(`${host} is not on this machine${risk}. Send test events?`, signal))) {
      printer.note('Nothing was sent.');
      return signal.aborted ? interruptedExit() : EXIT.failed;
    }
  }
  printer.note(runHandlers ? FOR_REAL : IGNORED);

  const total = totalOf(runHandlers);
  const report = createReport(printer, total);
  let isReached = false;
  const { genuine, ids, stored } = await examineEndpoint({
    ...options,
    onGenuine({ type, genuine: { answer } }) {
      if (answer.kind === 'unreachable' && !signal.aborted) {
        throw unreachableError(
          `${nameEndpoint(url)} cannot be reached: ${describeAnswer(answer)}. ${adviceOf(answer.reason)}`,
        );
      }
      isReached = true;
      const isDefault = !runHandlers || flags.type !== undefined || type === 'transfer.settled';
      if (!isDefault && outcomeOf(answer) !== 'ignored')
        printer.note(`The endpoint ignores transfer.settled, so the test events have the type ${type}.`);
    },
    onRow: report.add,
  }).finally(() => isReached && report.end());
  const wrong = hasInbox(flags) ? await endLeft(flags, { ids: [...ids], stored }, printer) : 0;
  if (signal.aborted) return interruptedExit();
  if (!runHandlers) printer.note(`Not checked without --run-handlers: ${LEFT_OUT.join(', ')}.`);
  const shown = report.count('pass') === total;
  // If the genuine delivery had no effect, the other checks prove nothing.
  const allowed = flags.allowNotShown === true && genuine.verdict === 'pass' && report.count('fail') === 0;
  return wrong === 0 && (shown || allowed) ? EXIT.good : EXIT.failed;
}

const IGNORED =
  'A correct receiver rejects or ignores every request and stores nothing. Pass --run-handlers to also check what your handlers do.';

const FOR_REAL =
  "The endpoint's real handlers run on these test events, which have payload.test set to true and ids that begin with evt_doctor_. Everything that the handlers write stays, and the ids stay in the inbox. Pass --inbox to discard the test events that have not finished.";

/** Returns the number of rejected events in the inbox plus the number of accepted events missing from it. */
async function endLeft(
  flags: InboxFlags,
  { ids, stored }: { readonly ids: readonly string[]; readonly stored: ReadonlySet<string> },
  printer: Printer,
): Promise<number> {
  return withInbox(flags, async (inbox) => {
    const records = await inbox.list({ ids, limit: ids.length });
    const refused = records.filter(({ id }) => MUST_BE_REFUSED.test(id)).map(({ id }) => id);
    if (refused.length > 0)
      printer.note(`Rejected by the endpoint, but stored in the inbox: ${nameSome(refused)}.`);
    const missing = [...stored].filter((id) => !records.some((record) => record.id === id));
    if (missing.length > 0) {
      printer.note(
        `Accepted by the endpoint, but missing from this inbox: ${countOf(missing.length, 'test event')}. Check that --inbox is the inbox of this endpoint. If it is, the endpoint did not store the events.`,
      );
    }
    const by = { by: 'stablehooks doctor', reason: 'a test event' };
    const ended = await inbox.discard({ ids, limit: ids.length, ...by });
    printer.note(`The inbox contains ${countOf(records.length, 'test event')}. Discarded now: ${ended}.`);
    return refused.length + missing.length;
  });
}

const MUST_BE_REFUSED = /_(?:unsigned|short-signature|forged|tampered|oversized|no-secrets)$/;

function readEffectsUrl(text: string): string {
  const url = parseUrl(text, '--effects');
  if (url.includes('{id}')) return url;
  throw usageError(
    '--effects must contain {id} for the event id, such as http://localhost:3000/effects/{id}.',
  );
}
