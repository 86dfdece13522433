import {
  describeAnswer,
  type EndpointAnswer,
  isDelivered,
  isWithoutEffect,
  statusOf,
} from '../io/delivery.js';
import type { AttemptFilter, AttemptKind, AttemptPage, AttemptRow, AttemptStats } from './api.js';

/** An attempt that a source keeps. */
export interface KeptAttempt {
  readonly row: AttemptRow;
  /** What the filter `text` looks in. */
  readonly bodies: readonly string[];
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

/** Statuses below 500 after which a sender tries again. */
const RETRIED: ReadonlySet<number> = new Set([408, 409, 425, 429]);

function kindOf(answer: EndpointAnswer): AttemptKind {
  if (answer.kind !== 'reply') return 'unanswered';
  if (isDelivered(answer)) return isWithoutEffect(answer) ? 'without-effect' : 'accepted';
  return statusOf(answer) >= 500 || RETRIED.has(statusOf(answer)) ? 'failed' : 'refused';
}

/** Lists one page of the attempts that the filter selects. */
export function listAttempts(
  newestFirst: Iterable<KeptAttempt>,
  {
    limit,
    before,
    ...filter
  }: AttemptFilter & { readonly limit: number; readonly before?: string | undefined },
): AttemptPage {
  const isSelected = createFilter(filter);
  const rows: AttemptRow[] = [];
  let isPassed = before === undefined;
  for (const attempt of newestFirst) {
    if (!isPassed) {
      isPassed = attempt.row.id === before;
      continue;
    }
    if (!isSelected(attempt)) continue;
    if (rows.length === limit) return { rows, next: rows.at(-1)?.id ?? null };
    rows.push(attempt.row);
  }
  return { rows, next: null };
}

function createFilter({ type, kind, id, text }: AttemptFilter): (attempt: KeptAttempt) => boolean {
  const [idPart, textPart] = [id?.toLowerCase(), text?.toLowerCase()];
  return ({ row, bodies }) =>
    (type === undefined || row.type === type) &&
    (kind === undefined || row.kind === kind) &&
    (idPart === undefined || [row.eventId, row.id].some((one) => one.toLowerCase().includes(idPart))) &&
    // Last, because it takes longest.
    (textPart === undefined || bodies.some((body) => body.toLowerCase().includes(textPart)));
}

const BOUNDS_MS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000] as const;
const MAX_BUCKETS = 60;
const DAY_MS = 86_400_000;
/** Widths of buckets whose bounds are easy to read, up to a day. */
const STEPS_MS = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 43_200].map(
  (s) => s * 1_000,
);

/** Counts the attempts that the filter selects. The types are those of all attempts. */
export function countAttempts(attempts: Iterable<KeptAttempt>, filter: AttemptFilter): AttemptStats {
  const isSelected = createFilter(filter);
  const types = new Set<string>();
  const selected: { readonly at: number; readonly row: AttemptRow }[] = [];
  let [first, last] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const attempt of attempts) {
    const { row } = attempt;
    types.add(row.type);
    if (!isSelected(attempt)) continue;
    const at = Date.parse(row.at);
    selected.push({ at, row });
    first = Math.min(first, at);
    last = Math.max(last, at);
  }
  const stepMs = stepOf(last - first);
  const from = selected.length === 0 ? 0 : Math.floor(first / stepMs) * stepMs;
  const buckets = selected.length === 0 ? 0 : Math.floor((last - from) / stepMs) + 1;
  const zeros = () => Array<number>(buckets).fill(0);
  const kinds: Record<AttemptKind, number[]> = {
    accepted: zeros(),
    'without-effect': zeros(),
    refused: zeros(),
    failed: zeros(),
    unanswered: zeros(),
  };
  const counts = Array<number>(BOUNDS_MS.length + 1).fill(0);
  for (const { at, row } of selected) {
    increment(kinds[row.kind], Math.floor((at - from) / stepMs));
    const bound = BOUNDS_MS.findIndex((ms) => row.durationMs <= ms);
    increment(counts, bound === -1 ? BOUNDS_MS.length : bound);
  }
  return {
    ...{ from, stepMs, kinds, latency: { boundsMs: BOUNDS_MS, counts } },
    total: selected.length,
    types: [...types].sort(),
  };
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
