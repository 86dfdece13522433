import { elementScroll, observeElementOffset, observeElementRect, Virtualizer } from '@tanstack/virtual-core';
import { useCallback, useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from 'preact/hooks';
import type { InboxPage, InboxRow } from '../../../src/inspector/api.js';
import { connection, onLive, staleFor } from '../live';
import { useEvery } from '../load';
import { Plain, toPlain } from '../plain';
import { ask } from '../server';
import { Time } from '../time';
import { follow, hrefWith, param } from '../url';
import { createPages, type ListedRow, PAGE_ROWS } from './inbox-pages';

// As in the style: the place of a row is computed from them.
const HEAD_HEIGHT = 32;
const ROW_HEIGHT = 46;
const OVERSCAN_ROWS = 8;
const isStale = staleFor('inbox');
/** A retry of an event changes neither the counts nor the oldest time, from which the server tells a change. */
export const REFRESH_MS = 5_000;

/** The events of a state. Only the rows in sight are in the document, and only the pages near to them in memory. */
export function InboxList({
  state,
  order,
  total,
  onListed,
}: {
  readonly state: InboxRow['state'];
  readonly order: 'newest' | 'oldest';
  /** How many events are in the state, as far as it is known. */
  readonly total: number | undefined;
  /** Called when the first rows are there, or could not be read. */
  readonly onListed: () => void;
}) {
  const [, render] = useReducer((count: number) => count + 1, 0);
  const [reading, readAgain] = useReducer((count: number) => count + 1, 0);
  const scroller = useRef<HTMLElement | null>(null);
  const setScroller = useCallback((element: HTMLElement | null) => {
    scroller.current = element;
    // The keys scroll what has the focus.
    if (element !== null) element.tabIndex = 0;
  }, []);
  const pages = useMemo(() => {
    const load = (after: string | undefined, signal: AbortSignal) =>
      ask<InboxPage>('inbox/events', { state, order, limit: PAGE_ROWS, after }, signal);
    return createPages({ order, load, onChange: () => render(undefined) });
  }, [state, order, reading]);
  const options = {
    count: pages.count + (pages.hasMore ? 1 : 0),
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: OVERSCAN_ROWS,
    observeElementRect,
    observeElementOffset,
    scrollToFn: elementScroll,
    onChange: () => render(undefined),
  };
  const [virtual] = useState(() => new Virtualizer<HTMLElement, HTMLTableRowElement>(options));
  virtual.setOptions(options);
  useLayoutEffect(() => virtual._didMount(), []);
  useLayoutEffect(() => virtual._willUpdate());

  const items = virtual.getVirtualItems();
  const { start: above = 0, index: first = 0 } = items[0] ?? {};
  const { index: last = 0 } = items.at(-1) ?? {};
  const hasFocus = useRef(false);
  useEffect(() => {
    pages.show(first, last);
    // The row with the focus is no longer in the document: the keys must still scroll the list.
    if (hasFocus.current && document.activeElement === document.body) {
      scroller.current?.focus({ preventScroll: true });
    }
  });
  useEffect(() => () => pages.close(), [pages]);
  const isOpen = connection.value.open;
  useEffect(() => {
    if (isOpen) pages.refresh();
    return onLive((entry) => {
      if (isStale(entry)) pages.refresh();
    });
  }, [pages, isOpen]);
  useEvery(REFRESH_MS, () => pages.refresh());

  const { added, error, count, hasMore } = pages;
  const isListed = count > 0 || !hasMore || error !== undefined;
  useEffect(() => {
    if (isListed) onListed();
  }, [isListed]);
  if (count === 0 && !hasMore) return <p class="empty">No event is {state} now.</p>;
  const dueTitle = state === 'leased' ? 'Lease until' : 'Due';
  return (
    <>
      <p class="inbox-place" role="status">
        {error !== undefined && (
          <span class="bad">
            The list could not be read: <bdi>{toPlain(error)}</bdi>
          </span>
        )}
        {added > 0 && `${added >= PAGE_ROWS ? `${added} or more` : added} new. `}
        {(added > 0 || error !== undefined) && (
          <button
            type="button"
            onClick={() => {
              scroller.current?.scrollTo({ top: 0 });
              readAgain(undefined);
            }}
          >
            Read the list again
          </button>
        )}
      </p>
      <section
        class="inbox-scroll"
        ref={setScroller}
        aria-label={`Events that are ${state}`}
        onFocusIn={() => (hasFocus.current = true)}
        onFocusOut={({ relatedTarget }) => {
          if (relatedTarget !== null) hasFocus.current = false;
        }}
      >
        {/* The rows that are not in the document have their place. */}
        <div style={{ height: `${virtual.getTotalSize() + HEAD_HEIGHT}px`, paddingTop: `${above}px` }}>
          <table class="inbox-list" aria-rowcount={Math.max(total ?? 0, count) + 1}>
            <thead>
              <tr aria-rowindex={1}>
                <th scope="col">Event</th>
                <th scope="col">Received</th>
                <th scope="col" class="inbox-more">
                  Origin
                </th>
                <th scope="col" class="inbox-more">
                  Attempts
                </th>
                <th scope="col" class="inbox-more">
                  {dueTitle}
                </th>
                <th scope="col">Last error</th>
              </tr>
            </thead>
            <tbody>
              {items.map(({ index, key }) => (
                <Row key={key} index={index} row={pages.at(index)} state={state} />
              ))}
            </tbody>
          </table>
        </div>
      </section>
      <p class="faint">
        {count.toLocaleString()} of {Math.max(total ?? 0, count).toLocaleString()} read, the {order} first.
      </p>
    </>
  );
}

function Row({
  row,
  index,
  state,
}: {
  readonly row: ListedRow | 'left' | undefined;
  readonly index: number;
  readonly state: InboxRow['state'];
}) {
  if (row === undefined || row === 'left') {
    return (
      <tr aria-rowindex={index + 2}>
        <td colSpan={6} class="faint">
          {row === undefined ? 'Loading …' : `No longer ${state}.`}
        </td>
      </tr>
    );
  }
  const isOpen = param('event') === row.id;
  return (
    <tr aria-rowindex={index + 2} class={row.left ? 'inbox-left' : undefined}>
      <td>
        <a
          href={hrefWith({ event: row.id })}
          aria-current={isOpen ? 'true' : undefined}
          data-event={row.id}
          onClick={follow}
        >
          <Plain text={row.id} />
        </a>
        <span class="faint">{row.left ? `No longer ${state}.` : <Plain text={row.type} />}</span>
      </td>
      <td>
        <Time at={row.receivedAt} />
      </td>
      <td class="inbox-more">
        <Plain text={row.origin} />
      </td>
      <td class="inbox-more">{row.attempts}</td>
      <td class="inbox-more">{row.dueAt === null ? '–' : <Time at={row.dueAt} />}</td>
      <td>{row.lastError === null ? '–' : <Plain text={row.lastError} />}</td>
    </tr>
  );
}
