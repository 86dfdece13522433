import { Command, InvalidArgumentError } from 'commander';
import { EVENT_TYPES, type EventType } from 'stablehooks';
import { type Check, type CheckResult, DELIVERY_CHECKS, REFUSAL_CHECKS } from '../doctor/checks.js';
import { adviceOf, checkGenuine, type GenuineResult } from '../doctor/diagnosis.js';
import { createTestedEndpoint, type TestedEndpoint } from '../doctor/endpoint.js';
import { createReport } from '../doctor/report.js';
import { describeAnswer, outcomeOf } from '../io/delivery.js';
import { unreachableError, usageError } from '../io/errors.js';
import { EXIT, type ExitCode, interruptedExit } from '../io/output.js';
import { nameEndpoint } from '../io/place.js';
import {
  addAction,
  addExample,
  addSecretFlags,
  type CommandContext,
  parseCount,
  parseEventType,
  parseUrl,
  parseWait,
  readPayload,
} from '../io/settings.js';

interface DoctorFlags {
  readonly type?: string;
  readonly payload?: string;
  readonly effects?: string;
  readonly allowNotShown?: boolean;
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

type EventTypes = readonly [EventType, ...EventType[]];

/** The type that most apps handle, then the others. */
const TYPES_TO_TRY: EventTypes = [
  'transfer.settled',
  ...EVENT_TYPES.filter((type) => type !== 'transfer.settled'),
];

export function doctorCommand(): Command {
  const command = new Command('doctor')
    .argument('<url>', 'URL of the endpoint')
    .option(
      '--type <type>',
      'type of the test events (default: the first that is not ignored, transfer.settled before others)',
    )
    .option('--payload <file>', 'JSON object with fields for the test payloads (default: {})')
    .option('--effects <url>', 'URL with {id} in it that answers how often an event took effect')
    .option(
      '--allow-not-shown',
      'exit with 0 if the genuine delivery was answered 2xx and no check failed; never if no handler ran',
    )
    .option('--timeout <duration>', 'how long to wait for an answer', parseWait, 10_000)
    .option(
      '--oversize <bytes>',
      'size of the oversized body, at most 67108864 (64 MiB)',
      parseOversize,
      2 * 1_048_576,
    );
  addSecretFlags(command);
  addExample(command, [
    'stablehooks doctor http://localhost:3000/hooks',
    '',
    'In test events, payload.test is true and the id begins with evt_doctor_.',
    'To show what a failure does, let the handler throw when payload.doctor is',
    '"failing-handler". Exit 0 means that every check passed.',
  ]);
  return addAction(command, examine);
}

async function examine({
  args,
  flags,
  settings,
  printer,
  signal,
}: CommandContext<DoctorFlags>): Promise<ExitCode> {
  const [url = ''] = args;
  const secret = await settings.secret();
  const types: EventTypes = flags.type === undefined ? TYPES_TO_TRY : [parseEventType(flags.type)];
  const options = {
    url: parseUrl(url, 'The URL'),
    secret,
    signature: settings.signature,
    payload: flags.payload === undefined ? {} : await readPayload(flags.payload),
    timeoutMs: flags.timeout,
    oversizeBytes: flags.oversize,
    effectsUrl: flags.effects === undefined ? undefined : readEffectsUrl(flags.effects),
    signal,
  };

  const report = createReport(printer, TOTAL);
  const create = (type: EventType) => createTestedEndpoint({ ...options, type });
  const checked = await checkTypes(types, { create, secret, signal }).finally(report.clear);
  const { type, endpoint, result } = checked;
  const { answer, comparable, ...genuine } = result;
  const isIgnored = outcomeOf(answer) === 'ignored';
  if (answer.kind === 'unreachable' && !signal.aborted) {
    throw unreachableError(
      `${nameEndpoint(url)} cannot be reached: ${describeAnswer(answer)}. ${adviceOf(answer.reason)}`,
    );
  }
  if (type !== types[0] && !isIgnored)
    printer.note(`The endpoint ignores ${types[0]}, so the test events are of type ${type}.`);
  try {
    // An interrupted check shows nothing about the endpoint.
    if (!signal.aborted) {
      const fix = isIgnored && flags.type === undefined ? NO_HANDLER : genuine.fix;
      report.add({ ...GENUINE, ...genuine, fix });
    }
    for (const check of CHECKS) {
      if (signal.aborted) break;
      const shows = REFUSAL_CHECKS.includes(check) ? comparable : genuine.verdict === 'pass';
      const result = shows ? await check.run(endpoint) : NOT_RUN;
      if (!signal.aborted) report.add({ ...check, ...result });
    }
  } finally {
    report.end();
  }
  if (signal.aborted) return interruptedExit();
  const shown = report.count('pass') === TOTAL;
  // If the genuine delivery had no effect, the other checks show nothing.
  const allowed = flags.allowNotShown === true && genuine.verdict === 'pass' && report.count('fail') === 0;
  return shown || allowed ? EXIT.good : EXIT.failed;
}

const CHECKS: readonly Check[] = [...REFUSAL_CHECKS, ...DELIVERY_CHECKS];
const GENUINE = { name: 'genuine', expected: '2xx' } as const;

/** How many checks there are. */
const TOTAL = 1 + CHECKS.length;

const NO_HANDLER = `No handler ran, whatever the type of the test event was: ${EVENT_TYPES.join(', ')}. Register a handler.`;

const NOT_RUN: CheckResult = {
  verdict: 'not shown',
  got: 'not run',
  fix: 'Not run, because the genuine delivery was not handled.',
};

interface TypeCheck {
  readonly create: (type: EventType) => TestedEndpoint;
  readonly secret: string;
  readonly signal: AbortSignal;
}

/** Sends a genuine delivery of each type until the endpoint handles one. */
async function checkTypes(
  [type, next, ...others]: EventTypes,
  check: TypeCheck,
): Promise<{ readonly type: EventType; readonly endpoint: TestedEndpoint; readonly result: GenuineResult }> {
  const endpoint = check.create(type);
  const result = await checkGenuine(endpoint, check.secret);
  const isOver = next === undefined || outcomeOf(result.answer) !== 'ignored' || check.signal.aborted;
  return isOver ? { type, endpoint, result } : checkTypes([next, ...others], check);
}

function readEffectsUrl(text: string): string {
  const url = parseUrl(text, '--effects');
  if (url.includes('{id}')) return url;
  throw usageError(
    '--effects needs {id} in it, for the id of the event: http://localhost:3000/effects/{id}.',
  );
}
