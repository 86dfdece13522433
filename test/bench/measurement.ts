/** Measuring: many rounds, each candidate in every round, and the median of each. */
import type { UnknownEvent } from 'stablehooks';
import { exampleEvent } from 'stablehooks/testing';
import { progressOf } from './progress.js';

export interface Candidate {
  readonly name: string;
  /** Creates the work of one round, independent of earlier rounds. */
  readonly prepare: () => Work | Promise<Work>;
}

export type Work = (index: number) => unknown;

export interface Measured {
  readonly name: string;
  /** The median over the rounds of each round's median call, in microseconds. */
  readonly p50Us: number;
  /** How often `p50Us` of the first candidate it took. */
  readonly ratio: number;
}

/**
 * Times each call by itself and takes the median, so that neither a collection of garbage nor a neighbour on
 * the machine decides. The candidates take turns within each round; the first round only warms up.
 */
export async function measure(
  candidates: readonly Candidate[],
  { part, rounds, calls }: { readonly part: string; readonly rounds: number; readonly calls: number },
): Promise<readonly Measured[]> {
  const medians = new Map<string, number[]>(candidates.map(({ name }) => [name, []]));
  for (let round = 0; round <= rounds; round++) {
    progressOf(part, round, rounds);
    // Each round begins with another: none always follows the same one, whose garbage is collected in its time.
    const first = round % candidates.length;
    for (const { name, prepare } of [...candidates.slice(first), ...candidates.slice(0, first)]) {
      const took = await time(await prepare(), calls);
      if (round > 0) medians.get(name)?.push(took);
    }
  }
  const p50s = candidates.map(({ name }) => median(medians.get(name) ?? []) / 1_000);
  return candidates.map(({ name }, index) => {
    const p50Us = p50s[index] ?? Number.NaN;
    return { name, p50Us, ratio: p50Us / (p50s[0] ?? Number.NaN) };
  });
}

async function time(work: Work, calls: number): Promise<number> {
  const took = new Float64Array(calls);
  for (let index = 0; index < calls; index++) {
    const start = process.hrtime.bigint();
    const result = work(index);
    // Synchronous work does not wait for a promise.
    if (result instanceof Promise) await result;
    took[index] = Number(process.hrtime.bigint() - start);
  }
  return median([...took]);
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

/** Runs one step for each of so many new events over so many lanes; answers steps a second. */
export async function perSecond(
  step: (event: UnknownEvent) => Promise<unknown>,
  { events: count, lanes }: { readonly events: number; readonly lanes: number },
): Promise<number> {
  const events = Array.from({ length: count }, () => exampleEvent('transfer.settled'));
  const waiting = events.values();
  const startedAt = performance.now();
  const lane = async () => {
    for (const event of waiting) await step(event);
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  return (count * 1_000) / (performance.now() - startedAt);
}
