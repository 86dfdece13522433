/** Sends inputs to `receive` in a process of their own, a span of them at a time. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { addCounts, BATCH, type ReceiveReport } from './receive.js';

export interface Span {
  readonly seed: number;
  readonly from: number;
  readonly to: number;
  readonly fault: string | undefined;
}

/** A span takes a second. */
const SPAN = 10 * BATCH;

/** Runs this many inputs. */
export async function fuzzReceiveInProcess({
  seed,
  inputs,
  until = Number.POSITIVE_INFINITY,
  fault,
  limitMs = 120_000,
}: {
  readonly seed: number;
  readonly inputs: number;
  /** When to end, by `performance.now()`. @default after the inputs */
  readonly until?: number | undefined;
  /** The name of a fault. @default none */
  readonly fault?: string | undefined;
  /** How long a span may take: more is a finding. @default 120_000 */
  readonly limitMs?: number | undefined;
}): Promise<ReceiveReport> {
  const child = fork(fileURLToPath(new URL('./receive-process.ts', import.meta.url)), [], {
    execArgv: ['--import', 'tsx'],
  });
  const ended = once(child, 'exit').then(() => undefined);
  let sum: ReceiveReport = { inputs: 0, findings: [], outcomes: {}, mutations: {} };
  for (let from = 0; from < inputs && sum.findings.length === 0 && performance.now() < until; from += SPAN) {
    const to = Math.min(inputs, from + SPAN);
    const part = await run(child, { span: { seed, from, to, fault }, ended, limitMs });
    if (part === undefined) {
      const kind = 'the process ends or takes too long';
      const what = `${kind}: inputs ${from} to ${to}`;
      return { ...sum, findings: [{ kind, what, seed, index: from, steps: [], input: 'not known' }] };
    }
    sum = {
      inputs: sum.inputs + part.inputs,
      findings: part.findings,
      outcomes: addCounts(sum.outcomes, part.outcomes),
      mutations: addCounts(sum.mutations, part.mutations),
    };
  }
  child.disconnect();
  await ended;
  return sum;
}

/** The report on a span; `undefined` when the process ends before, by itself or because it takes too long. */
async function run(
  child: ChildProcess,
  {
    span,
    ended,
    limitMs,
  }: { readonly span: Span; readonly ended: Promise<undefined>; readonly limitMs: number },
): Promise<ReceiveReport | undefined> {
  const answer = once(child, 'message').then(([report]) => report as ReceiveReport);
  child.send(span, () => undefined);
  const limit = setTimeout(() => child.kill('SIGKILL'), limitMs);
  const report = await Promise.race([answer, ended]);
  clearTimeout(limit);
  return report;
}
