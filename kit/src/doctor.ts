/** `stablehooks doctor`: tries a running endpoint as the service would, and says what to fix. */
import { Command, InvalidArgumentError } from 'commander';
import type { EventType } from 'stablehooks';
import { type Check, DELIVERY_CHECKS, REFUSAL_CHECKS } from './doctor-checks.js';
import { checkGenuine } from './doctor-diagnosis.js';
import { createEndpoint } from './doctor-endpoint.js';
import type { Finding } from './doctor-finding.js';
import { parseWait } from './duration.js';
import { EXIT, type ExitCode } from './exit.js';
import { unreachableError, usageError } from './failure.js';
import { parseCount } from './flag-value.js';
import { interruptedExit } from './interruption.js';
import { readPayload } from './payload-file.js';
import type { Printer } from './printer.js';
import { parseUrl } from './settings.js';
import { toTable } from './table.js';
import { addExample, addSecretFlags, type Task, toAction } from './task.js';

interface DoctorFlags {
  readonly type: string;
  readonly payload?: string;
  readonly effects?: string;
  readonly timeout: number;
  readonly oversize: number;
}

/** It is held in memory here, several times over. */
const LARGEST_BODY_BYTES = 64 * 1_048_576;

function parseOversize(text: string): number {
  const bytes = parseCount(text);
  if (bytes <= LARGEST_BODY_BYTES) return bytes;
  throw new InvalidArgumentError(`Write a number of bytes up to ${LARGEST_BODY_BYTES} (64 MiB).`);
}

const DEFAULT_TYPE: EventType = 'accept.confirmed';

/** One line of the report. */
type Row = Finding & Pick<Check, 'name' | 'expected'>;

/** The command. */
export function doctorCommand(): Command {
  const command = new Command('doctor')
    .argument('<url>', 'where the endpoint takes deliveries')
    .option('--type <type>', 'type of the test events', DEFAULT_TYPE)
    .option('--payload <file>', 'JSON object that the test payloads are made of (default: {})')
    .option('--effects <url>', 'URL with {id} in it that answers how often an event took effect')
    .option('--timeout <duration>', 'how long to wait for an answer', parseWait, 10_000)
    .option(
      '--oversize <bytes>',
      'how large the oversized body is, at most 67108864 (64 MiB)',
      parseOversize,
      2 * 1_048_576,
    );
  addSecretFlags(command);
  addExample(command, [
    'stablehooks doctor http://localhost:3000/hooks',
    '',
    'Test events have payload.test true and ids that begin with evt_doctor_. Let the handler throw when',
    'payload.doctor is "failing-handler" to have the way of a failure examined, too.',
  ]);
  return toAction(command, examine);
}

async function examine({ args, flags, settings, printer, signal }: Task<DoctorFlags>): Promise<ExitCode> {
  const [url = ''] = args;
  const secret = await settings.secret();
  const endpoint = createEndpoint({
    url: parseUrl(url, { name: 'doctor URL' }),
    secret,
    signature: settings.signature,
    type: flags.type,
    payload: flags.payload === undefined ? {} : await readPayload(flags.payload),
    timeoutMs: flags.timeout,
    oversizeBytes: flags.oversize,
    effectsUrl: flags.effects === undefined ? undefined : readEffectsUrl(flags.effects),
    signal,
  });

  const { answer, ...genuine } = await checkGenuine(endpoint, { secret });
  if (signal.aborted) return interruptedExit();
  if (answer.kind === 'unreachable') {
    throw unreachableError(`${url} cannot be reached (${answer.reason}). Is it started, and the port right?`);
  }
  const rows: Row[] = [{ name: 'genuine', expected: '2xx', ...genuine }];
  const checks = [...REFUSAL_CHECKS, ...DELIVERY_CHECKS];
  const progress = printer.progress('doctor', { total: checks.length + 1 });
  try {
    // Once, before the checks need it: a URL that does not answer is better known now.
    if (genuine.verdict === 'pass') await endpoint.effects(endpoint.event('genuine').id);
    for (const check of checks) {
      progress.show(rows.length);
      const skipped =
        genuine.verdict !== 'pass' && (answer.kind === 'silence' || DELIVERY_CHECKS.includes(check));
      const finding = skipped ? SKIPPED : await check.run(endpoint);
      // What was cut short says nothing of the endpoint.
      if (signal.aborted) break;
      rows.push({ ...check, ...finding });
    }
  } finally {
    progress.clear();
    report(printer, { rows, total: checks.length + 1 });
  }
  if (signal.aborted) return interruptedExit();
  return rows.every(({ verdict }) => verdict === 'pass') ? EXIT.good : EXIT.failed;
}

/** It is asked of one event after the other. */
function readEffectsUrl(text: string): string {
  const url = parseUrl(text, { name: '--effects' });
  if (url.includes('{id}')) return url;
  throw usageError(
    '--effects needs {id} in it, where the id of the event goes: http://localhost:3000/effects/{id}.',
  );
}

const SKIPPED: Finding = { verdict: 'skipped', got: 'not tried: genuine deliveries are not taken' };

/** Of `total` checks these rows are the ones that ran. */
function report(
  printer: Printer,
  { rows, total }: { readonly rows: readonly Row[]; readonly total: number },
): void {
  const { good, bad, doubtful, faint } = printer.paint;
  const paints = { pass: good, fail: bad, unproven: doubtful, skipped: faint } as const;
  const table = toTable(['check', 'expected', 'got', 'verdict'], {
    rows: rows.map(({ name, expected, got, verdict }) => [
      name,
      expected,
      got,
      { text: verdict, paint: paints[verdict] },
    ]),
  });
  const cures = rows.flatMap(({ name, fix }) => (fix === undefined ? [] : [`${name}: ${fix}`]));
  const passed = rows.filter(({ verdict }) => verdict === 'pass').length;
  const summary = `${passed} of ${total} passed`;
  printer.print({
    text: [table, ...(cures.length > 0 ? ['', 'Cures', ...cures] : []), '', summary].join('\n'),
    data: {
      passed: passed === total,
      checks: rows.map(({ name, expected, got, verdict, fix }) => ({ name, expected, got, verdict, fix })),
    },
  });
}
