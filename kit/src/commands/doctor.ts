import { Command, InvalidArgumentError } from 'commander';
import type { EventType } from 'stablehooks';
import { type Check, type CheckResult, DELIVERY_CHECKS, REFUSAL_CHECKS } from '../doctor/checks.js';
import { checkGenuine } from '../doctor/diagnosis.js';
import { createTestedEndpoint } from '../doctor/endpoint.js';
import { unreachableError, usageError } from '../io/errors.js';
import { EXIT, type ExitCode, interruptedExit, type Printer, toTable } from '../io/output.js';
import {
  addAction,
  addExample,
  addSecretFlags,
  type CommandContext,
  parseCount,
  parseUrl,
  parseWait,
  readPayload,
} from '../io/settings.js';

interface DoctorFlags {
  readonly type: string;
  readonly payload?: string;
  readonly effects?: string;
  readonly timeout: number;
  readonly oversize: number;
}

/** This process holds the body in memory several times. */
const MAX_OVERSIZE_BYTES = 64 * 1_048_576;

function parseOversize(text: string): number {
  const bytes = parseCount(text);
  if (bytes <= MAX_OVERSIZE_BYTES) return bytes;
  throw new InvalidArgumentError(`Write a number of bytes up to ${MAX_OVERSIZE_BYTES} (64 MiB).`);
}

const DEFAULT_TYPE: EventType = 'accept.confirmed';

/** One line of the report. */
type Row = CheckResult & Pick<Check, 'name' | 'expected'>;

export function doctorCommand(): Command {
  const command = new Command('doctor')
    .argument('<url>', 'URL of the endpoint')
    .option('--type <type>', 'type of the test events', DEFAULT_TYPE)
    .option('--payload <file>', 'JSON object with fields for the test payloads (default: {})')
    .option('--effects <url>', 'URL with {id} in it that answers how often an event took effect')
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
    'In test events, payload.test is true and the id begins with evt_doctor_. To check failures, too,',
    'let the handler throw when payload.doctor is "failing-handler".',
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
  const endpoint = createTestedEndpoint({
    url: parseUrl(url, 'The URL'),
    secret,
    signature: settings.signature,
    type: flags.type,
    payload: flags.payload === undefined ? {} : await readPayload(flags.payload),
    timeoutMs: flags.timeout,
    oversizeBytes: flags.oversize,
    effectsUrl: flags.effects === undefined ? undefined : readEffectsUrl(flags.effects),
    signal,
  });

  const { answer, ...genuine } = await checkGenuine(endpoint, secret);
  if (signal.aborted) return interruptedExit();
  if (answer.kind === 'unreachable') {
    throw unreachableError(
      `${url} cannot be reached (${answer.reason}). Check that it is started, and the port.`,
    );
  }
  const rows: Row[] = [{ name: 'genuine', expected: '2xx', ...genuine }];
  const checks = [...REFUSAL_CHECKS, ...DELIVERY_CHECKS];
  const progress = printer.progress('doctor', checks.length + 1);
  try {
    // Before the checks need it, so that a wrong URL is reported at once.
    if (genuine.verdict === 'pass') await endpoint.effects(endpoint.event('genuine').id);
    for (const check of checks) {
      progress.show(rows.length);
      const skipped =
        genuine.verdict !== 'pass' && (answer.kind === 'silence' || DELIVERY_CHECKS.includes(check));
      const finding = skipped ? SKIPPED : await check.run(endpoint);
      // An interrupted check says nothing about the endpoint.
      if (signal.aborted) break;
      rows.push({ ...check, ...finding });
    }
  } finally {
    progress.clear();
    report(printer, rows, checks.length + 1);
  }
  if (signal.aborted) return interruptedExit();
  return rows.every(({ verdict }) => verdict === 'pass') ? EXIT.good : EXIT.failed;
}

function readEffectsUrl(text: string): string {
  const url = parseUrl(text, '--effects');
  if (url.includes('{id}')) return url;
  throw usageError(
    '--effects needs {id} in it, for the id of the event: http://localhost:3000/effects/{id}.',
  );
}

const SKIPPED: CheckResult = { verdict: 'skipped', got: 'not run: genuine deliveries are refused' };

/** Prints the checks that ran, out of `total`. */
function report(printer: Printer, rows: readonly Row[], total: number): void {
  const { good, bad, doubtful, faint } = printer.paint;
  const paints = { pass: good, fail: bad, unproven: doubtful, skipped: faint } as const;
  const table = toTable(
    ['check', 'expected', 'got', 'verdict'],
    rows.map(({ name, expected, got, verdict }) => [
      name,
      expected,
      got,
      { text: verdict, paint: paints[verdict] },
    ]),
  );
  const fixes = rows.flatMap(({ name, fix }) => (fix === undefined ? [] : [`${name}: ${fix}`]));
  const passed = rows.filter(({ verdict }) => verdict === 'pass').length;
  const summary = `${passed} of ${total} passed`;
  printer.print({
    text: [table, ...(fixes.length > 0 ? ['', 'Fixes', ...fixes] : []), '', summary].join('\n'),
    data: {
      passed: passed === total,
      checks: rows.map(({ name, expected, got, verdict, fix }) => ({ name, expected, got, verdict, fix })),
    },
  });
}
