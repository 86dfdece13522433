import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  describeAnswer,
  type EndpointAnswer,
  faultOf,
  isAccepted,
  isDelivered,
  statusOf,
  TOO_LONG,
} from '../io/answer.js';
import type {
  AttemptKind,
  AttemptLine,
  AttemptRow,
  DroppedEvents,
  EventFilter,
  EventRow,
  Tone,
} from './api.js';
import type { DeliveriesPart } from './source.js';

export interface KeptAttempt {
  readonly row: AttemptRow;
  /** When the attempt began, in epoch ms. */
  readonly at: number;
  readonly bodies: () => readonly string[];
}

export function toResult(
  answer: EndpointAnswer,
): Pick<AttemptRow, 'kind' | 'status' | 'outcome' | 'durationMs'> {
  const { elapsedMs: durationMs } = answer;
  const kind = kindOf(answer);
  if (answer.kind !== 'reply') return { kind, status: null, outcome: describeAnswer(answer), durationMs };
  const { status, code, outcome, isCut } = answer;
  return { kind, status, outcome: code ?? outcome ?? (isCut ? TOO_LONG : null), durationMs };
}

/** After one of these statuses, a later attempt can succeed, as after a 5xx. */
const TEMPORARY: ReadonlySet<number> = new Set([408, 409, 425, 429]);

function kindOf(answer: EndpointAnswer): AttemptKind {
  if (answer.kind !== 'reply') return 'unanswered';
  if (isDelivered(answer) && faultOf(answer) !== undefined) return 'wrongly-accepted';
  if (isAccepted(answer) || isAccepted(answer, 'repeated')) return 'accepted';
  if (isDelivered(answer)) return 'without-effect';
  return statusOf(answer) >= 500 || TEMPORARY.has(statusOf(answer)) ? 'failed' : 'refused';
}

const TONES: Readonly<Record<AttemptKind, Tone>> = {
  ...{ accepted: 'good', 'wrongly-accepted': 'bad', 'without-effect': 'doubtful' },
  ...{ refused: 'bad', failed: 'bad', unanswered: 'bad' },
};

/** The attempts at one event, oldest first. */
interface Group {
  readonly id: string;
  readonly attempts: KeptAttempt[];
  row: EventRow | undefined;
  isPending: boolean;
}

/** A search of bodies yields to other work after this long. */
const TURN_MS = 10;
const MAX_HISTORY = 10;

interface AttemptSource<Attempt> {
  /** Returns the attempts that the source keeps, oldest first. */
  readonly attempts: () => readonly Attempt[];
  /** Must return the same object every time it is called with the same attempt. */
  readonly toKept: (attempt: Attempt) => KeptAttempt;
  readonly pending: () => ReadonlySet<string>;
  readonly dropped: () => DroppedEvents;
}

export function createAttemptEvents<Attempt>({
  attempts,
  toKept,
  pending,
  dropped,
}: AttemptSource<Attempt>): Pick<DeliveriesPart, 'events' | 'counts' | 'event'> {
  const groups = new Map<string, Group>();
  let known: ReadonlySet<Attempt> = new Set();

  /** Reads only the attempts that were made since the last call. */
  function follow(): void {
    const all = new Set(attempts());
    for (const attempt of known) {
      if (all.has(attempt)) continue;
      const kept = toKept(attempt);
      const group = groups.get(kept.row.eventId);
      group?.attempts.splice(group.attempts.indexOf(kept), 1);
      if (group !== undefined) group.row = undefined;
      if (group?.attempts.length === 0) groups.delete(group.id);
    }
    for (const attempt of all) {
      if (known.has(attempt)) continue;
      const kept = toKept(attempt);
      const { eventId: id } = kept.row;
      const group = groups.get(id) ?? { id, attempts: [], row: undefined, isPending: false };
      group.attempts.push(kept);
      group.row = undefined;
      groups.set(id, group);
    }
    known = all;
  }

  function rowOf(group: Group, isPending: boolean): EventRow {
    if (group.row === undefined || group.isPending !== isPending) group.row = toRow(group, isPending);
    group.isPending = isPending;
    return group.row;
  }

  async function select({ id, text, ...filter }: EventFilter): Promise<readonly EventRow[]> {
    follow();
    const waiting = pending();
    const [part, wanted = ''] = [id?.toLowerCase(), text?.toLowerCase()];
    const isWanted = (row: EventRow) =>
      (filter.state === undefined || row.state === filter.state) &&
      (filter.type === undefined || row.type === filter.type) &&
      (filter.since === undefined || row.at >= filter.since) &&
      (filter.until === undefined || row.at < filter.until) &&
      (filter.error === undefined || (row.tone !== 'good' && row.verdict.includes(filter.error)));
    const rows: EventRow[] = [];
    let turnEnds = performance.now() + TURN_MS;
    // The newest events come first: an event's place is determined by its first attempt.
    for (const group of [...groups.values()].toReversed()) {
      if (performance.now() > turnEnds) {
        await nextTurn();
        turnEnds = performance.now() + TURN_MS;
      }
      if (!group.attempts.some(isOwn)) continue;
      const isNamed = part === undefined || group.id.toLowerCase().includes(part);
      if (
        !isNamed ||
        (text !== undefined &&
          !group.attempts.some((kept) => kept.bodies().some((body) => body.toLowerCase().includes(wanted))))
      )
        continue;
      const row = rowOf(group, waiting.has(group.id));
      if (isWanted(row)) rows.push(row);
    }
    return rows;
  }

  return {
    async events({ limit, after, ...filter }) {
      const rows = await select(filter);
      const start = after === undefined ? 0 : rows.findIndex(({ id }) => id === after) + 1;
      const page = rows.slice(start, start + limit);
      return {
        rows: page.map((row) => ({ ...row, history: row.history.slice(-MAX_HISTORY) })),
        next: rows.length > start + limit ? (page.at(-1)?.id ?? null) : null,
        searched: null,
      };
    },
    async counts(filter) {
      const rows = await select({ ...filter, state: undefined });
      const counts = new Map<EventRow['state'], number>();
      for (const { state } of rows) counts.set(state, (counts.get(state) ?? 0) + 1);
      return {
        states: [...counts].map(([state, count]) => ({ state, count })),
        types: [
          ...new Set([...groups.values()].map(({ attempts: [first] }) => first?.row.type ?? '')),
        ].toSorted(),
        dropped: dropped(),
      };
    },
    event(id) {
      follow();
      const group = groups.get(id);
      return group && rowOf(group, pending().has(id));
    },
  };
}

const KINDS: readonly AttemptKind[] = [
  ...(['wrongly-accepted', 'unanswered', 'failed', 'refused', 'without-effect', 'accepted'] as const),
];

/** An attempt does not count for its event if the body was edited or sent to a URL other than the endpoint's. */
export const isOwn = ({ row: { edited, elsewhere } }: KeptAttempt) => edited !== true && elsewhere !== true;

function toRow({ id, attempts }: Group, isPending: boolean): EventRow {
  const first = attempts[0] as KeptAttempt;
  const own = attempts.filter(isOwn);
  const counted = own.length === 0 ? attempts : own;
  const decisive = [...new Set(counted.map(({ row }) => row.endpoint))].map((endpoint) => {
    const rows = counted.map(({ row }) => row).filter((row) => row.endpoint === endpoint);
    return (
      rows.find(({ kind }) => kind === 'wrongly-accepted') ??
      rows.find(({ kind }) => kind === 'accepted') ??
      (rows.at(-1) as AttemptRow)
    );
  });
  const worst = decisive.toSorted((a, b) => KINDS.indexOf(a.kind) - KINDS.indexOf(b.kind))[0] as AttemptRow;
  const isWaiting = isPending && worst.kind !== 'accepted' && worst.kind !== 'wrongly-accepted';
  return {
    id,
    type: first.row.type,
    state: worst.kind,
    tone: isWaiting ? 'doubtful' : TONES[worst.kind],
    verdict: toVerdict(worst, { isPending, attempts: counted.map(({ row }) => row) }),
    attempts: attempts.length,
    at: first.at,
    dueAt: null,
    key: null,
    history: attempts.map(toLine),
  };
}

function toVerdict(
  worst: AttemptRow,
  { isPending, attempts }: { readonly isPending: boolean; readonly attempts: readonly AttemptRow[] },
): string {
  const same = attempts.filter(
    ({ endpoint, faults }) => endpoint === worst.endpoint && !faults.includes('duplicate'),
  );
  const number = Math.max(1, same.indexOf(worst) + 1);
  const result = describeResult(worst);
  switch (worst.kind) {
    case 'accepted':
      return number === 1 ? 'Accepted' : `Accepted on attempt ${number}`;
    case 'wrongly-accepted':
      return `Accepted despite a wrong signature: ${result}`;
    case 'without-effect':
      return `Accepted without effect: ${result}`;
    default: {
      const count = same.length === 1 ? '1 attempt' : `${same.length} attempts`;
      return isPending ? `Not delivered yet, ${count}: ${result}` : `Never delivered, ${count}: ${result}`;
    }
  }
}

function describeResult({ status, outcome, faults }: AttemptRow): string {
  const what = [status, outcome].filter((part) => part !== null).join(' ');
  const injected = faults.filter((fault) => fault !== 'duplicate' && !what.includes(fault));
  return injected.length === 0 ? what : `${what} (injected: ${injected.join(', ')})`;
}

function toLine({ row, at }: KeptAttempt): AttemptLine {
  const { id, attempt, kind, status, outcome, endpoint, durationMs, faults } = row;
  const result = [status, outcome ?? (status === null ? kind : null)]
    .filter((part) => part !== null)
    .join(' ');
  return { id, at, name: `Attempt ${attempt}`, tone: TONES[kind], result, endpoint, durationMs, faults };
}
