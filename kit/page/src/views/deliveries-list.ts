import { useEffect, useRef, useState } from 'preact/hooks';
import type { AttemptFilter, AttemptPage, AttemptRow, AttemptStats } from '../../../src/inspector/api.js';
import { type LiveEntry, onLive } from '../live';
import { type Loaded, useLoaded } from '../load';
import { ask } from '../server';

/** How many rows the list has: new ones push the oldest onto the next page. */
const MAX_ROWS = 200;
const PAGE_ROWS = 100;
/** What the stream does not tell is asked for again this long after the last answer. */
const LIST_REST_MS = 1_000;
const STATS_REST_MS = 3_000;
/** After the list was drawn, it is left alone for so many times as long. */
const REST_FACTOR = 4;

type LiveAttempt = LiveEntry & { readonly kind: 'attempt' };

/** The list as the reader sees it. */
export interface Attempts {
  /** `undefined` until they were loaded. */
  readonly page: AttemptPage | undefined;
  /** How many attempts were made that are not in it. */
  readonly held: number;
  /** Shows them. */
  readonly release: () => void;
  readonly error: string | undefined;
  readonly reload: () => void;
}

/**
 * The newest attempts, or those before another one. While `isReading`, new ones are held: the rows stay where they
 * are.
 */
export function useAttempts(
  filter: AttemptFilter,
  before: string | undefined,
  isReading: () => boolean,
): Attempts {
  const key = JSON.stringify([filter, before]);
  const searches = filter.text !== undefined;
  /** `latest` is what is shown when nothing is held. */
  const list = useRef<{ key: string; latest: AttemptPage; shown: AttemptPage; held: number }>(undefined);
  /** What arrived since the list was asked for, the newest first: its answer may lack them. */
  const arrived = useRef<readonly AttemptRow[]>([]);
  const [, redraw] = useState(0);

  function show(): void {
    const { current } = list;
    if (current === undefined) return;
    list.current = { ...current, shown: current.latest, held: 0 };
    redraw((count) => count + 1);
  }

  function hold(count: number): void {
    if (list.current !== undefined) list.current.held = count;
    redraw((count) => count + 1);
  }

  const { data, error, reload } = useLoaded(
    key,
    (signal) => {
      arrived.current = [];
      return ask<AttemptPage>('deliveries', { ...filter, before, limit: PAGE_ROWS }, signal);
    },
    // Only the server has the bodies.
    (entry) => isStale(entry) || (searches && before === undefined && matches(entry, filter)),
    LIST_REST_MS,
  );

  useEffect(() => {
    if (data === undefined) return;
    const page = before === undefined ? prepend(arrived.current, data) : data;
    const { current } = list;
    if (current?.key !== key || before !== undefined || page.rows.length === 0 || !isReading()) {
      list.current = { key, latest: page, shown: page, held: 0 };
      show();
      return;
    }
    current.latest = page;
    const known = new Set(current.shown.rows.map(({ id }) => id));
    const index = page.rows.findIndex(({ id }) => known.has(id));
    hold(index === -1 ? page.rows.length : index);
  }, [data]);

  useEffect(() => {
    let frame = 0;
    let queue: AttemptRow[] = [];
    let restsUntil = 0;

    function flush(now: number): void {
      if (now < restsUntil) {
        frame = requestAnimationFrame(flush);
        return;
      }
      // When the rows are drawn, it is known how long they take: most of the time is left to the reader.
      frame = requestAnimationFrame((drawn) => {
        restsUntil = drawn + REST_FACTOR * (drawn - now);
        frame = queue.length === 0 ? 0 : requestAnimationFrame(flush);
      });
      const rows = queue.reverse();
      queue = [];
      arrived.current = [...rows, ...arrived.current].slice(0, MAX_ROWS);
      const { current } = list;
      if (current?.key !== key) return;
      // Some may have been in the answer to the last request.
      const known = new Set(current.latest.rows.map(({ id }) => id));
      const count = rows.filter(({ id }) => !known.has(id)).length;
      if (before === undefined) current.latest = prepend(rows, current.latest);
      if (before === undefined && !isReading()) show();
      else hold(current.held + count);
    }

    const unsubscribe = onLive((entry) => {
      if (searches || !matches(entry, filter)) return;
      queue.push(entry.row);
      // In a tab that is not seen, there are no frames.
      if (queue.length > 2 * MAX_ROWS) queue = queue.slice(-MAX_ROWS);
      frame ||= requestAnimationFrame(flush);
    });
    return () => {
      unsubscribe();
      cancelAnimationFrame(frame);
    };
  }, [key]);

  const { current } = list;
  const isCurrent = current?.key === key;
  return {
    page: isCurrent ? current.shown : undefined,
    held: isCurrent ? current.held : 0,
    release: show,
    error,
    reload,
  };
}

/** Counts of the attempts that a filter selects; `undefined` selects nothing, and nothing is asked for. */
export function useAttemptStats(
  filter: AttemptFilter | undefined,
): Pick<Loaded<AttemptStats | undefined>, 'data' | 'error'> {
  const { data, error } = useLoaded(
    JSON.stringify(filter ?? null),
    async (signal) =>
      filter === undefined ? undefined : ask<AttemptStats>('deliveries/stats', { ...filter }, signal),
    (entry) => filter !== undefined && (isStale(entry) || matches(entry, filter)),
    STATS_REST_MS,
  );
  // While those of another filter are loaded, those of before stay.
  const latest = useRef(data);
  latest.current = data ?? latest.current;
  return { data: latest.current, error };
}

function isStale(entry: LiveEntry): boolean {
  if (entry.kind === 'changed') return entry.view === 'deliveries';
  return entry.kind === 'reset' || entry.kind === 'recovered';
}

function matches(entry: LiveEntry, { type, kind, id = '' }: AttemptFilter): entry is LiveAttempt {
  if (entry.kind !== 'attempt') return false;
  const { row } = entry;
  const part = id.toLowerCase();
  return (
    (type === undefined || row.type === type) &&
    (kind === undefined || row.kind === kind) &&
    (row.id.toLowerCase().includes(part) || row.eventId.toLowerCase().includes(part))
  );
}

function joinRows(newer: readonly AttemptRow[], older: readonly AttemptRow[]): readonly AttemptRow[] {
  const ids = new Set(older.map(({ id }) => id));
  return [...newer.filter(({ id }) => !ids.has(id)), ...older];
}

function prepend(newer: readonly AttemptRow[], { rows, next }: AttemptPage): AttemptPage {
  const all = joinRows(newer, rows);
  if (all.length <= MAX_ROWS) return { rows: all, next };
  const kept = all.slice(0, MAX_ROWS);
  return { rows: kept, next: kept.at(-1)?.id ?? null };
}
