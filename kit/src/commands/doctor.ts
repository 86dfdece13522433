import { Command, InvalidArgumentError } from 'commander';
import { adviceOf } from '../doctor/diagnosis.js';
import { examineEndpoint, TOTAL } from '../doctor/examination.js';
import { createReport } from '../doctor/report.js';
import { describeAnswer, outcomeOf } from '../io/answer.js';
import { canAsk, confirm } from '../io/confirm.js';
import { unreachableError, usageError } from '../io/errors.js';
import { EXIT, interruptedExit, toPlain } from '../io/output.js';
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
  withScheme,
} from '../io/settings.js';
import { isLoopback } from '../other-sites.js';

interface DoctorFlags {
  readonly type?: string;
  readonly payload?: string;
  readonly effects?: string;
  readonly allowNotShown?: boolean;
  readonly yes?: boolean;
  readonly timeout: number;
  readonly oversize: number;
}

/** Limited, because this process holds the body in memory several times. */
const MAX_OVERSIZE_BYTES = 64 * 1_048_576;

function parseOversize(text: string): number {
  const bytes = parseCount(text);
  if (bytes <= MAX_OVERSIZE_BYTES) return bytes;
  throw new InvalidArgumentError(`Write a number of bytes up to ${MAX_OVERSIZE_BYTES} (64 MiB).`);
}

export function doctorCommand(): Command {
  const command = new Command('doctor')
    .argument('<url>', 'URL of the endpoint')
    .option(
      '--type <type>',
      'type of the test events (default: the first that is not ignored, transfer.settled before others)',
    )
    .option(
      '--payload <file>',
      'JSON object to send as the payload of each test event (default: an example of its type)',
    )
    .option('--effects <url>', 'URL with {id} in it that answers how often an event took effect')
    .option(
      '--allow-not-shown',
      'exit with 0 if the genuine delivery was answered 2xx and no check failed; never if no handler ran',
    )
    .option('--yes', 'send test events to a host other than this machine without a question')
    .option('--timeout <duration>', 'how long to wait for an answer', parseWait, 10_000)
    .option(
      '--oversize <bytes>',
      'size of the oversized body, at most 67108864 (64 MiB)',
      parseOversize,
      2 * 1_048_576,
    );
  addSecretFlags(command);
  return addAction(command, examine, [
    'stablehooks doctor http://localhost:3000/hooks',
    '',
    'The handlers of the endpoint run for real on its test events, in which',
    'payload.test is true and the id begins with evt_doctor_.',
    'To show what a failure does, let the handler throw when payload.doctor is',
    '"failing-handler". Exit 0 means that every check passed.',
  ]);
}

async function examine({ args, flags, settings, printer, signal }: CommandContext<DoctorFlags>) {
  const url = parseUrl(withScheme(args[0] ?? ''), 'The URL');
  const options = {
    url,
    secret: await settings.secret(),
    signature: settings.signature,
    type: flags.type === undefined ? undefined : parseEventType(flags.type),
    payload: flags.payload === undefined ? undefined : await readPayload(flags.payload),
    timeoutMs: flags.timeout,
    oversizeBytes: flags.oversize,
    effectsUrl: flags.effects === undefined ? undefined : readEffectsUrl(flags.effects),
    signal,
  };
  if (flags.yes !== true && !isLoopback(new URL(url).hostname)) {
    const host = toPlain(new URL(url).host);
    if (!canAsk()) {
      throw usageError(
        `${host} is another machine, and its handlers run for real. Pass --yes to send test events to it without a question.`,
      );
    }
    if (!(await confirm(`The handlers of ${host} run for real. Send test events?`, signal))) {
      printer.note('Nothing was sent.');
      return signal.aborted ? interruptedExit() : EXIT.failed;
    }
  }
  printer.note(FOR_REAL);

  const report = createReport(printer, TOTAL);
  let isReached = false;
  const { genuine } = await examineEndpoint({
    ...options,
    onGenuine({ type, genuine: { answer } }) {
      if (answer.kind === 'unreachable' && !signal.aborted) {
        throw unreachableError(
          `${nameEndpoint(url)} cannot be reached: ${describeAnswer(answer)}. ${adviceOf(answer.reason)}`,
        );
      }
      isReached = true;
      const isDefault = flags.type !== undefined || type === 'transfer.settled';
      if (!isDefault && outcomeOf(answer) !== 'ignored')
        printer.note(`The endpoint ignores transfer.settled, so the test events are of type ${type}.`);
    },
    onRow: report.add,
  }).finally(() => (isReached ? report.end() : report.clear()));
  if (signal.aborted) return interruptedExit();
  const shown = report.count('pass') === TOTAL;
  // If the genuine delivery had no effect, the other checks show nothing.
  const allowed = flags.allowNotShown === true && genuine.verdict === 'pass' && report.count('fail') === 0;
  return shown || allowed ? EXIT.good : EXIT.failed;
}

const FOR_REAL =
  'The handlers of the endpoint run for real on these test events: payload.test is true, and the ids begin with evt_doctor_.';

function readEffectsUrl(text: string): string {
  const url = parseUrl(text, '--effects');
  if (url.includes('{id}')) return url;
  throw usageError(
    '--effects needs {id} in it, for the id of the event: http://localhost:3000/effects/{id}.',
  );
}
