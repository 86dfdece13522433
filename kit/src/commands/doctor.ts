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
    .option('--run-handlers', 'also send test events whose handlers run for real, and check what they do')
    .option(
      '--type <type>',
      'type of these events (default: the first that is not ignored, transfer.settled before others)',
    )
    .option(
      '--payload <file>',
      'JSON object to send as the payload of these events (default: an example of the type)',
    )
    .option('--effects <url>', 'URL with {id} in it that answers how often an event took effect')
    .option(
      '--allow-not-shown',
      'exit with 0 if the genuine delivery was answered 2xx and no check failed; never if no handler ran',
    )
    .option('--yes', 'send test events to a host other than this machine without a question')
    .option('--timeout <duration>', 'how long to wait for an answer', parseWait, 10_000)
    .option('--oversize <bytes>', 'size of the oversized body', parseCount, 2 * 1_048_576);
  addInboxFlags(addSecretFlags(command), {
    about: `inbox of the endpoint, in which test events that are left to run are ended: ${INBOX_PLACE}`,
    required: false,
  });
  return addAction(command, examine, [
    'stablehooks doctor http://localhost:3000/hooks',
    'stablehooks doctor http://localhost:3000/hooks --run-handlers --inbox app.db',
    '',
    'Without --run-handlers, a right receiver refuses or ignores all that is',
    'sent, and stores nothing. With it, handlers run for real on test events:',
    'payload.test is true and the id begins with evt_doctor_. To show what a',
    'failure does, let the handler throw when payload.doctor is',
    '"failing-handler". Exit 0 means that every check passed.',
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
  // A wrong place must be refused before anything is sent.
  if (hasInbox(flags)) await withInbox(flags, async () => undefined);
  if (flags.yes !== true && !isLoopback(new URL(url).hostname)) {
    const host = toPlain(new URL(url).host);
    const risk = runHandlers ? ', and its handlers run for real' : '';
    if (!canAsk()) {
      throw usageError(
        `${host} is another machine${risk}. Pass --yes to send test events to it without a question.`,
      );
    }
    if (!(await confirm(`${host} is another machine${risk}. Send test events?`, signal))) {
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
        printer.note(`The endpoint ignores transfer.settled, so the test events are of type ${type}.`);
    },
    onRow: report.add,
  }).finally(() => isReached && report.end());
  const wrong = hasInbox(flags) ? await endLeft(flags, { ids: [...ids], stored }, printer) : 0;
  if (signal.aborted) return interruptedExit();
  if (!runHandlers) printer.note(`Not checked without --run-handlers: ${LEFT_OUT.join(', ')}.`);
  const shown = report.count('pass') === total;
  // If the genuine delivery had no effect, the other checks show nothing.
  const allowed = flags.allowNotShown === true && genuine.verdict === 'pass' && report.count('fail') === 0;
  return wrong === 0 && (shown || allowed) ? EXIT.good : EXIT.failed;
}

const IGNORED =
  'A right receiver refuses or ignores all that is sent, and stores nothing. --run-handlers also checks what handlers do.';

const FOR_REAL =
  'The handlers of the endpoint run for real on these test events: payload.test is true, and the ids begin with evt_doctor_. What the handlers write stays, and so do the ids in the inbox; --inbox ends the events that are left to run.';

/**
 * Ends the test events that would run again or need a person. Returns how many are in the inbox although they were refused, or
 * are not in it although the endpoint says so.
 */
async function endLeft(
  flags: InboxFlags,
  { ids, stored }: { readonly ids: readonly string[]; readonly stored: ReadonlySet<string> },
  printer: Printer,
): Promise<number> {
  return withInbox(flags, async (inbox) => {
    const records = await inbox.list({ ids, limit: ids.length });
    const refused = records.filter(({ id }) => MUST_BE_REFUSED.test(id)).map(({ id }) => id);
    if (refused.length > 0) printer.note(`In the inbox, although it was refused: ${nameSome(refused)}.`);
    const missing = [...stored].filter((id) => !records.some((record) => record.id === id));
    if (missing.length > 0) {
      printer.note(
        `Not in this inbox, although the endpoint accepted them: ${countOf(missing.length, 'test event')}. Pass the inbox of this endpoint to --inbox; if it is this one, the endpoint stores nothing.`,
      );
    }
    const by = { by: 'stablehooks doctor', reason: 'a test event' };
    const ended = await inbox.discard({ ids, limit: ids.length, ...by });
    printer.note(`In the inbox: ${countOf(records.length, 'test event')}, ${ended} of them ended here.`);
    return refused.length + missing.length;
  });
}

/** The ids of the deliveries that a right receiver refuses. */
const MUST_BE_REFUSED = /_(?:unsigned|short-signature|forged|tampered|oversized|no-secrets)$/;

function readEffectsUrl(text: string): string {
  const url = parseUrl(text, '--effects');
  if (url.includes('{id}')) return url;
  throw usageError(
    '--effects needs {id} in it, for the id of the event: http://localhost:3000/effects/{id}.',
  );
}
