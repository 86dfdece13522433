import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  describeAnswer,
  type EndpointAnswer,
  faultOf,
  isDelivered,
  isWithoutEffect,
  statusOf,
} from '../io/delivery.js';
import { Fifo } from '../sandbox/fifo.js';
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
  /** The texts that the filter `text` searches. */
  readonly bodies: () => readonly string[];
}

/** The columns of a row about the answer. */
export function toResult(
  answer: EndpointAnswer,
): Pick<AttemptRow, 'kind' | 'status' | 'outcome' | 'durationMs'> {
  const { elapsedMs: durationMs } = answer;
  const kind = kindOf(answer);
  if (answer.kind !== 'reply') return { kind, status: null, outcome: describeAnswer(answer), durationMs };
  return { kind, status: answer.status, outcome: answer.code ?? answer.outcome ?? null, durationMs };
}

/** Statuses below 500 after which a later attempt can succeed. */
const TEMPORARY: ReadonlySet<number> = new Set([408, 409, 425, 429]);

function kindOf(answer: EndpointAnswer): AttemptKind {
  if (answer.kind !== 'reply') return 'unanswered';
  if (isDelivered(answer) && faultOf(answer) !== undefined) return 'wrongly-accepted';
  if (isDelivered(answer)) return isWithoutEffect(answer) ? 'without-effect' : 'accepted';
  return statusOf(answer) >= 500 || TEMPORARY.has(statusOf(answer)) ? 'failed' : 'refused';
}

/** How often other work of the process can run while bodies are searched. */
const TURN_MS = 10;
/** How many searched texts keep their results, because a page requests the same text again. */
const MAX_TEXTS = 8;
/** How many filters keep their counts. */
const MAX_TALLIES = 16;

/**
 * Lists and counts the attempts that a source keeps.
 *
 * @param attempts - returns them, oldest first.
 * @param toKept - reads one of them. It must return the same object each time.
 */
export function createAttemptList<Attempt>(
  attempts: () => readonly Attempt[],
  toKept: (attempt: Attempt) => KeptAttempt,
): Pick<DeliveriesPart, 'list' | 'stats'> {
  const searched = new Map<string, WeakMap<KeptAttempt, boolean>>();
  const tallies = new Map<string, ReturnType<typeof createTally<Attempt>>>();

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
      const all = attempts().map(toKept);
      const end = before === undefined ? all.length : all.findLastIndex(({ row }) => row.id === before);
      const selected = await select(all.slice(0, Math.max(0, end)), filter);
      const rows = selected
        .slice(-limit)
        .reverse()
        .map(({ row }) => row);
      return { rows, next: selected.length > limit ? (rows.at(-1)?.id ?? null) : null };
    },
    stats(filter) {
      const { type, kind, id, text } = filter;
      const key = JSON.stringify([type, kind, id, text]);
      const tally = tallies.get(key) ?? createTally((among) => select(among, filter), toKept);
      if (!tallies.has(key) && tallies.size >= MAX_TALLIES) tallies.clear();
      tallies.set(key, tally);
      return tally.stats(attempts);
    },
  };
}

const BOUNDS_MS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000] as const;
const MAX_BUCKETS = 60;
const DAY_MS = 86_400_000;
/** Widths of buckets with readable bounds, up to a day. */
const STEPS_MS = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 43_200].map(
  (s) => s * 1_000,
);

/** Counts the selected attempts. Reads only the attempts that were added or removed since the last time. */
function createTally<Attempt>(
  select: (among: readonly KeptAttempt[]) => Promise<readonly KeptAttempt[]>,
  toKept: (attempt: Attempt) => KeptAttempt,
) {
  let seen: readonly Attempt[] = [];
  let followed = Promise.resolve();
  const selected = new Fifo<KeptAttempt>();
  const types = new Map<string, number>();
  const latency = Array<number>(BOUNDS_MS.length + 1).fill(0);
  /** By the time in seconds, of which every width of a bucket is a multiple. */
  const seconds = new Map<number, Map<AttemptKind, number>>();

  function count({ at, row }: KeptAttempt, by: 1 | -1): void {
    const second = Math.floor(at / 1_000);
    const kinds = seconds.get(second) ?? new Map<AttemptKind, number>();
    add(kinds, row.kind, by);
    if (kinds.size === 0) seconds.delete(second);
    else seconds.set(second, kinds);
    const bound = boundOf(row.durationMs);
    latency[bound] = (latency[bound] ?? 0) + by;
  }

  async function follow(all: readonly Attempt[]): Promise<void> {
    const known = all.lastIndexOf(seen.at(-1) as Attempt) + 1;
    const gone = known === 0 ? seen : seen.slice(0, seen.indexOf(all[0] as Attempt));
    const came = all.slice(known).map(toKept);
    const found = await select(came);
    const dropped = new Set(gone.map(toKept));
    for (const { row } of dropped) add(types, row.type, -1);
    for (let oldest = selected.at(0); oldest !== undefined && dropped.has(oldest); oldest = selected.at(0)) {
      selected.shift();
      count(oldest, -1);
    }
    for (const { row } of came) add(types, row.type, 1);
    for (const attempt of found) {
      selected.push(attempt);
      count(attempt, 1);
    }
    seen = all;
  }

  function toStats(): AttemptStats {
    let [first, last] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
    for (const second of seconds.keys()) {
      first = Math.min(first, second * 1_000);
      last = Math.max(last, second * 1_000);
    }
    const stepMs = stepOf(last - first);
    const from = selected.length === 0 ? 0 : Math.floor(first / stepMs) * stepMs;
    const buckets = selected.length === 0 ? 0 : Math.floor((last - from) / stepMs) + 1;
    const kinds = Object.fromEntries(
      ATTEMPT_KINDS.map((kind) => [kind, Array<number>(buckets).fill(0)]),
    ) as Record<AttemptKind, number[]>;
    for (const [second, each] of seconds) {
      const bucket = Math.floor((second * 1_000 - from) / stepMs);
      for (const [kind, count] of each) kinds[kind][bucket] = (kinds[kind][bucket] ?? 0) + count;
    }
    return {
      ...{ from, stepMs, kinds, latency: { boundsMs: BOUNDS_MS, counts: [...latency] } },
      total: selected.length,
      types: [...types.keys()].sort(),
    };
  }

  return {
    /** Runs one after another, because a search yields to other work. */
    async stats(attempts: () => readonly Attempt[]): Promise<AttemptStats> {
      followed = followed.then(() => follow(attempts()));
      await followed;
      return toStats();
    },
  };
}

function add<Name>(counts: Map<Name, number>, name: Name, by: 1 | -1): void {
  const count = (counts.get(name) ?? 0) + by;
  if (count === 0) counts.delete(name);
  else counts.set(name, count);
}

function boundOf(durationMs: number): number {
  const bound = BOUNDS_MS.findIndex((ms) => durationMs <= ms);
  return bound === -1 ? BOUNDS_MS.length : bound;
}

/** The width for at most {@link MAX_BUCKETS} buckets, plus one where the span is not aligned. */
function stepOf(spanMs: number): number {
  const [shortest = DAY_MS] = STEPS_MS;
  if (!(spanMs > 0)) return shortest;
  const least = spanMs / MAX_BUCKETS;
  return STEPS_MS.find((step) => step >= least) ?? Math.ceil(least / DAY_MS) * DAY_MS;
}
