import { setImmediate as nextTurn } from 'node:timers/promises';
import { type EndpointAnswer, faultOf, isDelivered, statusOf } from '../explain/answer.js';
import { describeAnswer, isWithoutEffect } from '../io/delivery.js';
import {
  ATTEMPT_KINDS,
  type AttemptFilter,
  type AttemptKind,
  type AttemptRow,
  type AttemptStats,
} from './api.js';
import type { DeliveriesPart } from './source.js';

/** An attempt that a source keeps. */
export interface KeptAttempt {
  readonly row: AttemptRow;
  /** When it began, in epoch ms. */
  readonly at: number;
  /** What the filter `text` looks in. */
  readonly bodies: () => readonly string[];
}

/** What a row says about the answer. */
export function toResult(
  answer: EndpointAnswer,
): Pick<AttemptRow, 'kind' | 'status' | 'outcome' | 'durationMs'> {
  const { elapsedMs: durationMs } = answer;
  const kind = kindOf(answer);
  if (answer.kind !== 'reply') return { kind, status: null, outcome: describeAnswer(answer), durationMs };
  return { kind, status: answer.status, outcome: answer.code ?? answer.outcome ?? null, durationMs };
}

/** Statuses below 500 that say that the answer can be another later. */
const TEMPORARY: ReadonlySet<number> = new Set([408, 409, 425, 429]);

function kindOf(answer: EndpointAnswer): AttemptKind {
  if (answer.kind !== 'reply') return 'unanswered';
  if (isDelivered(answer) && faultOf(answer) !== undefined) return 'wrongly-accepted';
  if (isDelivered(answer)) return isWithoutEffect(answer) ? 'without-effect' : 'accepted';
  return statusOf(answer) >= 500 || TEMPORARY.has(statusOf(answer)) ? 'failed' : 'refused';
}

/** Other work of the process gets its turn this often, while bodies are searched. */
const TURN_MS = 10;
/** For so many texts, it is kept which attempts were searched, and what was found: a page asks for the same again. */
const MAX_TEXTS = 8;
/** For so many filters, the counts are kept until the next attempt. */
const MAX_COUNTS = 32;

/** Lists and counts the attempts that a source keeps. @param attempts - gives them, the oldest first */
export function createAttemptList(
  attempts: () => readonly KeptAttempt[],
): Pick<DeliveriesPart, 'list' | 'stats'> {
  const searched = new Map<string, WeakMap<KeptAttempt, boolean>>();
  let newest: KeptAttempt | undefined;
  let counts = new Map<string, Promise<AttemptStats>>();

  async function select(
    among: readonly KeptAttempt[],
    { type, kind, id, text }: AttemptFilter,
  ): Promise<readonly KeptAttempt[]> {
    const idPart = id?.toLowerCase();
    const selected = among.filter(
      ({ row }) =>
        (type === undefined || row.type === type) &&
        (kind === undefined || row.kind === kind) &&
        (idPart === undefined || [row.eventId, row.id].some((one) => one.toLowerCase().includes(idPart))),
    );
    return text === undefined ? selected : search(selected, text.toLowerCase());
  }

  async function search(among: readonly KeptAttempt[], text: string): Promise<readonly KeptAttempt[]> {
    const known = searched.get(text) ?? new WeakMap<KeptAttempt, boolean>();
    if (!searched.has(text) && searched.size >= MAX_TEXTS) searched.clear();
    searched.set(text, known);
    const found: KeptAttempt[] = [];
    let turnEnds = performance.now() + TURN_MS;
    for (const attempt of among) {
      if (performance.now() > turnEnds) {
        await nextTurn();
        turnEnds = performance.now() + TURN_MS;
      }
      const isFound =
        known.get(attempt) ?? attempt.bodies().some((body) => body.toLowerCase().includes(text));
      known.set(attempt, isFound);
      if (isFound) found.push(attempt);
    }
    return found;
  }

  return {
    async list({ limit, before, ...filter }) {
      const all = attempts();
      const end = before === undefined ? all.length : all.findLastIndex(({ row }) => row.id === before);
      const selected = await select(all.slice(0, Math.max(0, end)), filter);
      const rows = selected
        .slice(-limit)
        .reverse()
        .map(({ row }) => row);
      return { rows, next: selected.length > limit ? (rows.at(-1)?.id ?? null) : null };
    },
    stats(filter) {
      const all = attempts();
      if (all.at(-1) !== newest) counts = new Map();
      newest = all.at(-1);
      const { type, kind, id, text } = filter;
      const key = JSON.stringify([type, kind, id, text]);
      const known = counts.get(key);
      if (known !== undefined) return known;
      if (counts.size >= MAX_COUNTS) counts.clear();
      const types = [...new Set(all.map(({ row }) => row.type))].sort();
      const counted = select(all, filter).then((selected) => ({ ...countAttempts(selected), types }));
      counts.set(key, counted);
      return counted;
    },
  };
}

const BOUNDS_MS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000] as const;
const MAX_BUCKETS = 60;
const DAY_MS = 86_400_000;
/** Widths of buckets whose bounds are easy to read, up to a day. */
const STEPS_MS = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 43_200].map(
  (s) => s * 1_000,
);

function countAttempts(attempts: readonly KeptAttempt[]): Omit<AttemptStats, 'types'> {
  let [first, last] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const { at } of attempts) {
    first = Math.min(first, at);
    last = Math.max(last, at);
  }
  const stepMs = stepOf(last - first);
  const from = attempts.length === 0 ? 0 : Math.floor(first / stepMs) * stepMs;
  const buckets = attempts.length === 0 ? 0 : Math.floor((last - from) / stepMs) + 1;
  const kinds = Object.fromEntries(
    ATTEMPT_KINDS.map((kind) => [kind, Array<number>(buckets).fill(0)]),
  ) as Record<AttemptKind, number[]>;
  const counts = Array<number>(BOUNDS_MS.length + 1).fill(0);
  for (const { at, row } of attempts) {
    increment(kinds[row.kind], Math.floor((at - from) / stepMs));
    const bound = BOUNDS_MS.findIndex((ms) => row.durationMs <= ms);
    increment(counts, bound === -1 ? BOUNDS_MS.length : bound);
  }
  return { from, stepMs, kinds, latency: { boundsMs: BOUNDS_MS, counts }, total: attempts.length };
}

/** The width that gives at most {@link MAX_BUCKETS} buckets, but for one more where the span is not aligned. */
function stepOf(spanMs: number): number {
  const [shortest = DAY_MS] = STEPS_MS;
  if (!(spanMs > 0)) return shortest;
  const least = spanMs / MAX_BUCKETS;
  return STEPS_MS.find((step) => step >= least) ?? Math.ceil(least / DAY_MS) * DAY_MS;
}

function increment(counts: number[], index: number): void {
  counts[index] = (counts[index] ?? 0) + 1;
}
