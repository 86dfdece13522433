import type { InboxPage, InboxRow } from '../../../src/inspector/api.js';

/** An event in the list. One that has left the state stays in its place until the list is read again. */
export interface ListedRow extends InboxRow {
  readonly left?: boolean;
}

/** A list that is read in pages, of which only those near to what is shown are kept. */
export interface InboxPages {
  /** How many rows are known, with those that are not kept. */
  readonly count: number;
  /** Whether more rows follow. */
  readonly hasMore: boolean;
  /** How many events came between the rows that are known or before them, and are not shown. */
  readonly added: number;
  /** Why the last read failed. */
  readonly error: string | undefined;
  /** `undefined`: it is being read. `left`: nothing is known of it, except that it has left the state. */
  at(index: number): ListedRow | 'left' | undefined;
  /** Says which rows are shown, so that they are read, and those that follow. */
  show(first: number, last: number): void;
  /** Reads what is shown again. No row changes its place. */
  refresh(): void;
  close(): void;
}

export const PAGE_ROWS = 100;
/** How many pages are kept on each side of those that are shown. */
const KEPT_PAGES = 3;
/** How many rows before the end of what is known the next page is read. */
const AHEAD_ROWS = 30;

interface Page {
  /** The id after which the page begins. */
  readonly after: string | undefined;
  readonly length: number;
  /** The last row, which separates the page from the next one; `undefined` in an empty page. */
  readonly end: InboxRow | undefined;
  /** `undefined`: not kept. Can be shorter than `length` when it was read again. */
  readonly rows: readonly ListedRow[] | undefined;
}

/** Creates a list. One page is read at a time. `onChange` is called when there is something else to show. */
export function createPages({
  order,
  load,
  onChange,
}: {
  readonly order: 'newest' | 'oldest';
  readonly load: (after: string | undefined, signal: AbortSignal) => Promise<InboxPage>;
  readonly onChange: () => void;
}): InboxPages {
  const pages: Page[] = [];
  const abort = new AbortController();
  const added = new Set<string>();
  let hasMore = true;
  let error: string | undefined;
  let isReading = false;
  let shown = { first: 0, last: 0 };
  /** Pages that are kept and are read again. */
  let stale = new Set<number>();

  /** Rows of one ms have an order that only the server knows. */
  const isBefore = (row: InboxRow, other: InboxRow) =>
    order === 'oldest' ? row.receivedAt < other.receivedAt : row.receivedAt > other.receivedAt;

  /** The next page to read. */
  function wanted(): number | undefined {
    for (let index = shown.first; index <= shown.last && index < pages.length; index += 1) {
      if (pages[index]?.rows === undefined) return index;
    }
    if (hasMore && shown.last >= pages.length) return pages.length;
    const [index] = stale;
    return index;
  }

  async function read(index: number): Promise<void> {
    const page = pages[index];
    const after = page === undefined ? pages[index - 1]?.end?.id : page.after;
    const { rows, next } = await load(after, abort.signal);
    stale.delete(index);
    const isLast = index >= pages.length - 1;
    const inside = page?.end === undefined ? rows : rowsUpTo(page.end, { page, rows });
    const isAll = next === null || inside.length < rows.length;
    const merged = page?.end === undefined ? rows : merge(page, { inside, isAll });
    const more = isLast ? rows.filter((row) => !inside.includes(row)) : [];
    const kept = [...merged, ...more].slice(0, isLast ? PAGE_ROWS : page?.length);
    // Every page before the last one is full. Where it is not, what follows counts as added.
    if (isLast)
      hasMore = kept.length === PAGE_ROWS && (next !== null || merged.length + more.length > PAGE_ROWS);
    pages[index] = isLast
      ? { after, length: kept.length, end: kept.at(-1), rows: kept }
      : { after, length: page?.length ?? 0, end: page?.end, rows: kept };
    for (const [each, { rows: held, ...rest }] of pages.entries()) {
      const isNear = each >= shown.first - KEPT_PAGES && each <= shown.last + KEPT_PAGES;
      // The first page is kept, because it shows what is new.
      if (!isNear && each > 0 && held !== undefined) pages[each] = { ...rest, rows: undefined };
    }
  }

  /** Those of the rows that do not follow the end of a page. */
  function rowsUpTo(
    end: InboxRow,
    { page: { rows: before = [] }, rows }: { readonly page: Page; readonly rows: readonly InboxRow[] },
  ): readonly InboxRow[] {
    const known = new Set([end, ...before].map(({ id }) => id));
    const reach = rows.findLastIndex(({ id }) => known.has(id));
    return rows.filter((row, index) => index <= reach || isBefore(row, end));
  }

  /** The rows of a page that was read before, in their places. With `isAll`, no row of the page was left out. */
  function merge(
    { rows: before }: Page,
    { inside, isAll }: { readonly inside: readonly InboxRow[]; readonly isAll: boolean },
  ): readonly ListedRow[] {
    if (before === undefined) return inside;
    const known = new Set(before.map(({ id }) => id));
    for (const { id } of inside) if (!known.has(id)) added.add(id);
    const found = new Map(inside.map((row) => [row.id, row]));
    const reach = isAll ? before.length : before.findLastIndex(({ id }) => found.has(id));
    return before.map((row, index) => found.get(row.id) ?? (index < reach ? { ...row, left: true } : row));
  }

  async function work(): Promise<void> {
    if (isReading || error !== undefined) return;
    isReading = true;
    try {
      for (let index = wanted(); index !== undefined; index = wanted()) {
        await read(index);
        onChange();
      }
    } catch (thrown) {
      if (abort.signal.aborted) return;
      error = thrown instanceof Error ? thrown.message : 'It failed.';
      onChange();
    } finally {
      isReading = false;
    }
  }

  return {
    get count() {
      const last = pages.at(-1);
      return last === undefined ? 0 : (pages.length - 1) * PAGE_ROWS + last.length;
    },
    get hasMore() {
      return hasMore;
    },
    get added() {
      return added.size;
    },
    get error() {
      return error;
    },
    at(index) {
      const rows = pages[Math.floor(index / PAGE_ROWS)]?.rows;
      return rows === undefined ? undefined : (rows[index % PAGE_ROWS] ?? 'left');
    },
    show(first, last) {
      shown = { first: Math.floor(first / PAGE_ROWS), last: Math.floor((last + AHEAD_ROWS) / PAGE_ROWS) };
      void work();
    },
    refresh() {
      error = undefined;
      // In the list of the newest, what is new comes first.
      stale = new Set(order === 'newest' && pages.length > 0 ? [0] : []);
      for (let index = shown.first; index <= shown.last && index < pages.length; index += 1) stale.add(index);
      void work();
    },
    close: () => abort.abort(),
  };
}
