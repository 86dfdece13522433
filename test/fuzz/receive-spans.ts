/** Sends inputs to `receive` in a process of its own, so an input that never ends is recognized from outside. */
import { Child } from './child.js';
import type { FuzzReport } from './receive.js';
import type { Span } from './receive-process.js';
import { type Counts, count } from './steps.js';

export async function fuzzReceiveInProcess({
  seed,
  inputs,
  until = Number.POSITIVE_INFINITY,
  fault,
  limitMs = 120_000,
}: Pick<Span, 'seed'> &
  Partial<Pick<Span, 'fault'>> & {
    readonly inputs: number;
    /** When to end, by `performance.now()`. @default after the inputs */
    readonly until?: number;
    /** How long about 5,000 inputs may take: more is a finding. @default 120_000 */
    readonly limitMs?: number;
  }): Promise<FuzzReport> {
  const child = new Child('./receive-process.ts');
  const counts: Counts = {};
  let sent = 0;
  let failure: string | undefined;
  for (let at = seed; sent < inputs && failure === undefined && performance.now() < until; at += 1) {
    const span: Span = { seed: at, numRuns: 200, fault };
    const report = await child.ask<FuzzReport>(span, limitMs);
    sent += report?.sent ?? 0;
    for (const [name, more] of Object.entries(report?.counts ?? {})) count(counts, name, more);
    failure = report === undefined ? `the process ended ${child.ended}; seed ${at}` : report.failure;
  }
  await child.close(limitMs);
  return { sent, counts, failure };
}
