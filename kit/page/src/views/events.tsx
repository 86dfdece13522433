import { useEffect, useRef, useState } from 'preact/hooks';
import type { EventCounts, EventPage, EventRow, EventState } from '../../../src/inspector/api.js';
import { useKeys } from '../keys';
import { staleFor } from '../live';
import { useEvery, useLoaded } from '../load';
import { LoadError } from '../load-error';
import { Plain, toPlain } from '../plain';
import { ask, can, session } from '../server';
import { Time } from '../time';
import { Mark } from '../tone';
import { follow, go, hrefOf, hrefWith, param } from '../url';
import { EventActions } from './event-actions';
import { filterKey, isFiltered, NO_FILTER, readFilter, TIMES } from './filter';
import './events.css';

const PAGE_ROWS = 100;
/** The server does not notice a retry, because a retry changes neither the counts nor the oldest time. */
const REFRESH_MS = 5_000;
const isStale = staleFor('events');
const INBOX_STATES: readonly EventState[] = ['dead', 'failed', 'leased', 'received', 'parked', 'done'];
const KINDS: readonly EventState[] = [
  ...(['wrongly-accepted', 'unanswered', 'failed', 'refused', 'without-effect', 'accepted'] as const),
];

export function EventsView() {
  const key = filterKey();
  const counts = useLoaded(
    `counts ${key}`,
    (signal) => ask<EventCounts>('events/counts', { ...readFilter() }, signal),
    isStale,
    2_000,
  );
  const last = useRef(counts.data);
  last.current = counts.data ?? last.current;
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  useEffect(() => setSelected(new Set()), [key]);
  const [listed, setListed] = useState<{ readonly key: string; readonly states: EventCounts['states'] }>();
  const acts = (['requeue', 'run', 'discard'] as const).some(can);
  return (
    <div class="events">
      <h2 class="unseen">Events</h2>
      <div class="bars">
        <div class="bar">
          <States counts={last.current} />
          {acts && (
            <EventActions
              states={counts.data?.states ?? (listed?.key === key ? listed.states : null)}
              selected={selected}
              onDone={() => {
                setSelected(new Set());
                counts.reload();
              }}
            />
          )}
        </div>
        <Filters types={last.current?.types ?? []} />
      </div>
      {counts.error !== undefined && (
        <p class="bad" role="alert">
          The counts could not be read: <Plain text={counts.error} />
        </p>
      )}
      <List
        key={key}
        selected={acts ? selected : undefined}
        onSelect={setSelected}
        onLoad={(page, after) => setListed({ key, states: after === undefined ? tally(page) : null })}
      />
      <Dropped dropped={last.current?.dropped} />
    </div>
  );
}

function Dropped({ dropped }: { readonly dropped: EventCounts['dropped'] | undefined }) {
  if (dropped === undefined || dropped.delivered + dropped.exhausted === 0) return null;
  return (
    <p class="faint">
      {dropped.delivered + dropped.exhausted} older events are not listed because their attempts are no longer
      kept: {dropped.delivered} got a 2xx, {dropped.exhausted} did not.
    </p>
  );
}

function tally({ rows, next }: EventPage): EventCounts['states'] {
  if (next !== null) return null;
  const counts = new Map<EventState, number>();
  for (const { state } of rows) counts.set(state, (counts.get(state) ?? 0) + 1);
  return [...counts].map(([state, count]) => ({ state, count }));
}

function States({ counts }: { readonly counts: EventCounts | undefined }) {
  const state = param('state');
  const found = counts?.states ?? [];
  const isInbox = session.value?.views.includes('coverage') === true;
  const known = isInbox ? INBOX_STATES : KINDS;
  const countOf = (each: EventState) => found.find((count) => count.state === each)?.count;
  const total = counts?.states === null ? undefined : found.reduce((sum, { count }) => sum + count, 0);
  const chips = [undefined, ...known] as const;
  return (
    <nav class="chips" aria-label="States">
      {chips.map((each) => {
        const count = each === undefined ? total : (countOf(each) ?? (counts?.states ? 0 : undefined));
        return (
          <a
            key={each ?? 'all'}
            class="chip"
            href={hrefWith({ state: each, after: undefined })}
            aria-current={each === state ? 'true' : undefined}
            onClick={follow}
          >
            {each?.replaceAll('-', ' ') ?? 'All'}{' '}
            <b>{counts === undefined ? '…' : (count?.toLocaleString('en') ?? '?')}</b>
          </a>
        );
      })}
    </nav>
  );
}

function Filters({ types }: { readonly types: readonly string[] }) {
  const type = param('type');
  const time = param('time');
  const shown = [...new Set([...types, ...(type === undefined ? [] : [type])])];
  const hasSpan = param('since') !== undefined || param('until') !== undefined;
  const [isMore, setMore] = useState(false);
  const isInbox = session.value?.views.includes('coverage') === true;
  const setTime = (to: string | undefined) =>
    go({ time: to, since: undefined, until: undefined, after: undefined });
  return (
    <search class={isMore ? 'bar filters filters-all' : 'bar filters'}>
      <select
        aria-label="Type"
        value={type ?? ''}
        onChange={({ currentTarget }) => go({ type: currentTarget.value, after: undefined })}
      >
        <option value="">All types</option>
        {shown.map((each) => (
          <option key={each} value={each}>
            {toPlain(each)}
          </option>
        ))}
      </select>
      <fieldset class="segments" aria-label={isInbox ? 'Last change' : 'First attempt'}>
        <button
          type="button"
          aria-pressed={time === undefined && !hasSpan}
          onClick={() => setTime(undefined)}
        >
          Any time
        </button>
        {Object.entries(TIMES).map(([name, { title }]) => (
          <button type="button" key={name} aria-pressed={time === name} onClick={() => setTime(name)}>
            {title}
          </button>
        ))}
        {hasSpan && time === undefined && (
          <button type="button" aria-pressed={true} onClick={() => setTime(undefined)}>
            Time span ✕
          </button>
        )}
      </fieldset>
      <Field name="id" label="Id contains" />
      <button
        type="button"
        class="quiet filters-more"
        aria-expanded={isMore}
        onClick={() => setMore(!isMore)}
      >
        {isMore ? 'Fewer filters' : 'More filters'}
      </button>
      <Field name="error" label="Error contains" />
      {isInbox && (
        <>
          <Field name="group" label="Error of a group" />
          <Field name="key" label="Ordering key" />
          <Field name="attempts" label="Attempts at least" />
          <Field name="payload" label="payload.name=value" />
        </>
      )}
      <Field name="text" label="Body contains" />
      {isFiltered() && (
        <button type="button" class="quiet" onClick={() => go(NO_FILTER)}>
          Clear
        </button>
      )}
    </search>
  );
}

const TYPING_MS = 300;

function Field({
  name,
  label,
}: {
  readonly name: 'id' | 'text' | 'error' | 'group' | 'key' | 'attempts' | 'payload';
  readonly label: string;
}) {
  const value = param(name) ?? '';
  const [typed, setTyped] = useState<string>();
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  // The typed text takes precedence until it is in the URL. After that, a link or Back can change it.
  useEffect(() => {
    if (timer.current === undefined) setTyped(undefined);
  }, [value]);
  return (
    <input
      type="search"
      aria-label={label}
      placeholder={label}
      spellcheck={false}
      autocomplete="off"
      value={typed ?? value}
      onInput={({ currentTarget }) => {
        setTyped(currentTarget.value);
        clearTimeout(timer.current);
        timer.current = setTimeout(() => {
          timer.current = undefined;
          const text = name === 'text' || name === 'error' ? currentTarget.value : currentTarget.value.trim();
          go({ [name]: text, after: undefined }, { replace: true });
        }, TYPING_MS);
      }}
      onKeyDown={({ key, currentTarget }) => {
        if (key === 'Escape') currentTarget.blur();
      }}
    />
  );
}

function isReading(list: HTMLElement | null): boolean {
  return scrollY > 40 || list?.querySelector('tbody :focus-visible, input:checked') != null;
}

const COLUMNS = [
  ['at', 'First attempt'],
  ['type', 'Type'],
  ['id', 'Event'],
  ['verdict', 'Verdict'],
  ['attempts', 'Attempts'],
] as const;

function List({
  selected,
  onSelect,
  onLoad,
}: {
  readonly selected: ReadonlySet<string> | undefined;
  readonly onSelect: (ids: ReadonlySet<string>) => void;
  readonly onLoad: (page: EventPage, after: string | undefined) => void;
}) {
  const after = param('after');
  const list = useRef<HTMLDivElement>(null);
  const [shown, setShown] = useState<EventPage>();
  const [held, setHeld] = useState(0);
  const [active, setActive] = useState<string>();
  const [searchOn, setSearchOn] = useState<{ readonly after: string; readonly searched: number }>();
  useEffect(() => setSearchOn(undefined), [after]);
  const from = searchOn?.after ?? after;
  const { data, error, reload } = useLoaded(
    `events ${from}`,
    (signal) => ask<EventPage>('events', { ...readFilter(), after: from, limit: PAGE_ROWS }, signal),
    isStale,
    1_000,
  );
  useEvery(REFRESH_MS, reload);
  const loaded = useRef<{ readonly after: string | undefined }>(undefined);
  useEffect(() => {
    if (data === undefined) return;
    if (data.rows.length === 0 && data.next !== null) {
      setSearchOn({ after: data.next, searched: (searchOn?.searched ?? 0) + (data.searched ?? 0) });
      return;
    }
    onLoad(data, from);
    const isSame = loaded.current?.after === after && loaded.current !== undefined;
    loaded.current = { after };
    if (!isSame || shown === undefined || !isReading(list.current)) {
      setShown(data);
      setHeld(0);
      return;
    }
    const newer = new Map(data.rows.map((row) => [row.id, row]));
    const known = new Set(shown.rows.map(({ id }) => id));
    setHeld(data.rows.filter(({ id }) => !known.has(id)).length);
    setShown({ ...shown, rows: shown.rows.map((row) => newer.get(row.id) ?? row) });
  }, [data]);

  const rows = shown?.rows ?? [];
  const reached = rows.some(({ id }) => id === active) ? active : rows[0]?.id;
  const isInbox = session.value?.views.includes('coverage') === true;
  useEffect(() => {
    if (rows.length === 0 || lastOpened === undefined) return;
    focusRow(lastOpened);
    lastOpened = undefined;
  }, [rows.length > 0]);

  function focusRow(id: string): void {
    const link = list.current?.querySelector<HTMLElement>(`a[data-event="${CSS.escape(id)}"]`);
    link?.focus({ preventScroll: true });
    link?.closest('tr')?.scrollIntoView({ block: 'nearest' });
  }
  function move(by: number): void {
    const index = rows.findIndex(({ id }) => id === reached);
    const hasFocus = list.current?.contains(document.activeElement) === true;
    const to = rows[Math.max(0, Math.min(rows.length - 1, hasFocus ? index + by : index))];
    if (to !== undefined) focusRow(to.id);
  }
  const toggled = (ids: ReadonlySet<string>, id: string) =>
    new Set(ids.has(id) ? [...ids].filter((each) => each !== id) : [...ids, id]);
  const select = (id: string) => selected && onSelect(toggled(selected, id));
  useKeys({
    ...{ j: () => move(1), k: () => move(-1), ArrowDown: () => move(1), ArrowUp: () => move(-1) },
    x: () => reached !== undefined && select(reached),
  });
  const isAll = selected !== undefined && rows.length > 0 && rows.every(({ id }) => selected.has(id));

  return (
    <div ref={list} class="list" aria-busy={data === undefined}>
      <p class="unseen" role="status">
        {held > 0 && 'There are new events.'}
      </p>
      {held > 0 && (
        <button
          type="button"
          class="primary list-new"
          onClick={() => {
            scrollTo(0, 0);
            setShown(data);
            setHeld(0);
          }}
        >
          {held >= PAGE_ROWS ? `${PAGE_ROWS} or more` : held} new
        </button>
      )}
      <LoadError error={error} reload={reload} />
      {rows.length === 0 && error === undefined ? (
        <Nothing isSearching={data === undefined || data.next !== null} isOlder={after !== undefined} />
      ) : (
        <table
          class={`rows ${isInbox ? 'rows-inbox' : ''} ${selected === undefined ? 'rows-unselectable' : ''}`}
        >
          <caption class="unseen">Events, the newest first</caption>
          <thead>
            <tr>
              <td class="c-select">
                {selected !== undefined && (
                  <input
                    type="checkbox"
                    aria-label="Select the events on this page"
                    checked={isAll}
                    onChange={() => onSelect(new Set(isAll ? [] : rows.map(({ id }) => id)))}
                  />
                )}
              </td>
              {COLUMNS.map(([name, title]) => (
                <th key={name} scope="col" class={`c-${name}`}>
                  {name === 'at' && isInbox ? 'Received' : title}
                </th>
              ))}
              {isInbox && (
                <th scope="col" class="c-due">
                  Due
                </th>
              )}
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <Row
                key={row.id}
                row={row}
                isReached={row.id === reached}
                isSelected={selected?.has(row.id)}
                isInbox={isInbox}
                onReach={() => setActive(row.id)}
                onSelect={() => select(row.id)}
              />
            ))}
          </tbody>
        </table>
      )}
      <p class="pages">
        {after !== undefined && (
          <a class="button" href={hrefWith({ after: undefined })} onClick={follow}>
            Newest
          </a>
        )}
        {shown != null && shown.next !== null && (
          <a class="button" href={hrefWith({ after: shown.next })} onClick={follow}>
            {shown.searched === null ? 'Older' : 'Search older events'}
          </a>
        )}
        {(searchOn !== undefined || shown?.searched != null) && (
          <span class="faint">
            {((searchOn?.searched ?? 0) + (shown?.searched ?? 0)).toLocaleString('en')} events searched.
          </span>
        )}
      </p>
    </div>
  );
}

function Nothing({ isSearching, isOlder }: { readonly isSearching: boolean; readonly isOlder: boolean }) {
  if (isSearching) return <p class="empty">{isFiltered() ? 'Searching …' : 'Loading …'}</p>;
  if (!isFiltered()) return <p class="empty">No events yet. They appear here as they arrive.</p>;
  return (
    <p class="empty">
      {isOlder ? 'No older event matches this filter.' : 'No event matches this filter.'}{' '}
      {param('id') !== undefined && (
        <a class="button" href={hrefOf({ view: 'events', find: param('id') ?? '' })} onClick={follow}>
          Search for this id without a filter
        </a>
      )}{' '}
      <button type="button" onClick={() => go(NO_FILTER)}>
        Clear the filter
      </button>
    </p>
  );
}

function Row({
  row,
  isReached,
  isSelected,
  isInbox,
  onReach,
  onSelect,
}: {
  readonly row: EventRow;
  readonly isReached: boolean;
  readonly isSelected: boolean | undefined;
  readonly isInbox: boolean;
  readonly onReach: () => void;
  readonly onSelect: () => void;
}) {
  const { id, type, tone, verdict, attempts, at, dueAt, history: lines } = row;
  const tabIndex = isReached ? 0 : -1;
  const hasInjected = lines.at(-1)?.faults.some((fault) => fault !== 'duplicate') === true;
  return (
    <tr
      class={isSelected === true ? 'selected' : undefined}
      onFocusIn={onReach}
      onClick={(event) => {
        // A click anywhere in the row opens the event, unless the click selects text or hits a control.
        const isControl =
          event.target instanceof Element && event.target.closest('a, button, input') !== null;
        if (!isControl && getSelection()?.isCollapsed !== false) open(id);
      }}
    >
      <td class="c-select">
        {isSelected !== undefined && (
          <input
            type="checkbox"
            tabIndex={tabIndex}
            aria-label={`Select ${toPlain(id)}`}
            checked={isSelected}
            onChange={onSelect}
          />
        )}
      </td>
      <td class="c-at">
        <Time at={at} />
      </td>
      <td class="c-type" title={toPlain(type)}>
        <Plain text={type} />
      </td>
      <td class="c-id mono">
        <a
          href={hrefWith({ event: id })}
          data-event={id}
          tabIndex={tabIndex}
          title={toPlain(id)}
          onClick={(event) => {
            if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)
              return;
            event.preventDefault();
            open(id);
          }}
        >
          <Plain text={id} />
        </a>
      </td>
      <td class="c-verdict" title={toPlain(verdict)}>
        <Mark tone={tone} /> {hasInjected && <span class="badge badge-first">injected</span>}
        <Plain text={verdict} />
      </td>
      <td class="c-attempts">{attempts}</td>
      {isInbox && (
        <td class="c-due">{dueAt === null ? <span class="faint">–</span> : <Time at={dueAt} />}</td>
      )}
    </tr>
  );
}

/** The row of this event gets the focus when the reader returns to the list. */
let lastOpened: string | undefined;

function open(id: string): void {
  lastOpened = id;
  go({ event: id });
}
