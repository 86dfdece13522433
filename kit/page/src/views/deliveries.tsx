import type { RefObject } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { AttemptFilter, AttemptKind, AttemptRow, AttemptStats } from '../../../src/inspector/api.js';
import { Plain, toPlain } from '../plain';
import { Time } from '../time';
import { follow, go, hrefWith, param } from '../url';
import { AttemptPanel } from './deliveries-detail';
import { useAttemptStats, useAttempts } from './deliveries-list';
import { formatMs, KINDS, KindMark } from './deliveries-words';
import { DeliveryCharts } from './delivery-charts';
import './deliveries.css';

/** Every attempt at a delivery: the list, and beside it the one that is open. */
export function DeliveriesView() {
  const kind = param('kind');
  const filter: AttemptFilter = {
    type: param('type'),
    kind: isKind(kind) ? kind : undefined,
    id: param('id'),
    text: param('text'),
  };
  // The kind makes no difference to how many there are of each.
  const { data: stats, error } = useAttemptStats({ ...filter, kind: undefined });
  const opened = param('attempt');
  const view = useRef<HTMLDivElement>(null);
  useReturn(view, opened);
  return (
    <div class="deliveries" ref={view} data-open={opened !== undefined}>
      <h2 class="unseen">Deliveries</h2>
      <div class="deliveries-above">
        <DeliveryCharts filter={filter} all={stats} error={error} />
        <Filters filter={filter} stats={stats} />
      </div>
      <AttemptList filter={filter} />
      {opened !== undefined && <AttemptPanel id={opened} />}
    </div>
  );
}

/** When the attempt is closed, by whatever way, the focus and the position in the list are as before. */
function useReturn(view: { readonly current: HTMLElement | null }, opened: string | undefined): void {
  const last = useRef({ id: opened, scrollY: 0, wasHidden: false });
  // Before the change is made.
  if (last.current.id === undefined && opened !== undefined) last.current.scrollY = scrollY;
  if (last.current.id !== undefined && opened === undefined) {
    last.current.wasHidden = view.current?.querySelector<HTMLElement>('.deliveries-rows')?.offsetHeight === 0;
  }
  useLayoutEffect(() => {
    const { id, wasHidden } = last.current;
    last.current.id = opened;
    if (opened !== undefined || id === undefined) return;
    if (wasHidden) scrollTo({ top: last.current.scrollY, behavior: 'instant' });
    const link =
      findLink(view.current, id) ?? view.current?.querySelector<HTMLElement>('tbody a[tabindex="0"]');
    link?.focus({ preventScroll: wasHidden });
  }, [opened]);
}

function findLink(within: Element | null, id: string): HTMLElement | null | undefined {
  return within?.querySelector<HTMLElement>(`tbody a[data-attempt="${CSS.escape(id)}"]`);
}

function isKind(kind: string | undefined): kind is AttemptKind {
  return kind !== undefined && Object.hasOwn(KINDS, kind);
}

/** A change of a filter begins at the newest attempt. */
function filterBy(
  change: Readonly<Record<string, string | undefined>>,
  options?: { replace: boolean },
): void {
  go({ ...change, before: undefined }, options);
}

function Filters({
  filter,
  stats,
}: {
  readonly filter: AttemptFilter;
  readonly stats?: AttemptStats | undefined;
}) {
  const search = useRef<HTMLInputElement>(null);
  useEffect(() => {
    function onKey(event: KeyboardEvent): void {
      const isTyping =
        event.target instanceof Element && event.target.closest('input, textarea, select, dialog');
      if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey || isTyping) return;
      event.preventDefault();
      search.current?.focus();
    }
    document.addEventListener('keydown', onKey);
    return () => document.removeEventListener('keydown', onKey);
  }, []);
  const countOf = (kind: AttemptKind) => stats?.kinds[kind].reduce((sum, count) => sum + count, 0);
  const types = [
    ...new Set([...(filter.type === undefined ? [] : [filter.type]), ...(stats?.types ?? [])]),
  ].sort();
  return (
    <form class="deliveries-filters" aria-label="Filters" onSubmit={(event) => event.preventDefault()}>
      <fieldset class="deliveries-kinds" aria-label="How it ended">
        <button
          type="button"
          aria-pressed={filter.kind === undefined}
          onClick={() => filterBy({ kind: undefined })}
        >
          All <Count value={stats?.total} />
        </button>
        {Object.keys(KINDS)
          .filter(isKind)
          .map((kind) => (
            <button
              type="button"
              key={kind}
              aria-pressed={filter.kind === kind}
              onClick={() => filterBy({ kind: filter.kind === kind ? undefined : kind })}
            >
              <KindMark kind={kind} /> <Count value={countOf(kind)} />
            </button>
          ))}
      </fieldset>
      <label>
        Type
        <select value={filter.type ?? ''} onChange={(event) => filterBy({ type: event.currentTarget.value })}>
          <option value="">All types</option>
          {types.map((type) => (
            <option key={type} value={type}>
              {toPlain(type)}
            </option>
          ))}
        </select>
      </label>
      <FilterField name="id" label="Id contains" field={search} />
      <FilterField name="text" label="Body contains" />
    </form>
  );
}

function Count({ value }: { readonly value: number | undefined }) {
  return <span class="faint">{value?.toLocaleString('en') ?? '…'}</span>;
}

/** How long after the last key the list is asked for. */
const TYPING_MS = 250;

function FilterField({
  name,
  label,
  field,
}: {
  readonly name: 'id' | 'text';
  readonly label: string;
  readonly field?: RefObject<HTMLInputElement | null>;
}) {
  const value = param(name) ?? '';
  const [typed, setTyped] = useState<string>();
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  // What is typed wins until the URL has it; then a link or Back can change it.
  useEffect(() => {
    if (timer.current === undefined) setTyped(undefined);
  }, [value]);
  return (
    <label>
      {label}
      <input
        ref={field ?? null}
        type="search"
        spellcheck={false}
        autocomplete="off"
        value={typed ?? value}
        onInput={({ currentTarget }) => {
          setTyped(currentTarget.value);
          clearTimeout(timer.current);
          timer.current = setTimeout(() => {
            timer.current = undefined;
            filterBy({ [name]: currentTarget.value }, { replace: true });
          }, TYPING_MS);
        }}
      />
    </label>
  );
}

function AttemptList({ filter }: { readonly filter: AttemptFilter }) {
  const before = param('before');
  const opened = param('attempt');
  const list = useRef<HTMLDivElement>(null);
  const body = useRef<HTMLTableSectionElement>(null);
  /** The row that the Tab key reaches. */
  const [active, setActive] = useState<string>();

  const { page, held, release, error, reload } = useAttempts(filter, before, () => {
    const { current } = list;
    return (
      param('attempt') !== undefined ||
      current === null ||
      current.getBoundingClientRect().top < 0 ||
      // Who goes through the rows with the keyboard reads, too.
      current.querySelector('tbody :focus-visible') !== null
    );
  });
  // While the rows of another filter are loaded, those of before stay.
  const last = useRef(page);
  last.current = page ?? last.current;
  const { rows, next } = last.current ?? { rows: [], next: null };
  const reached = [active, opened].find((id) => rows.some((row) => row.id === id)) ?? rows[0]?.id;

  function showNew(): void {
    if (before === undefined) release();
    else go({ before: undefined });
    list.current?.scrollIntoView({ block: 'start' });
    // After the rows are there.
    requestAnimationFrame(() => body.current?.querySelector('a')?.focus({ preventScroll: true }));
  }

  function onKeyDown(event: KeyboardEvent): void {
    const row = event.target instanceof Element ? event.target.closest('tr') : null;
    const to = {
      ArrowDown: row?.nextElementSibling,
      ArrowUp: row?.previousElementSibling,
      Home: body.current?.firstElementChild,
      End: body.current?.lastElementChild,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const link = to?.querySelector('a');
    link?.focus({ preventScroll: true });
    link?.closest('tr')?.scrollIntoView({ block: 'nearest' });
  }

  return (
    <div ref={list} class="deliveries-rows" aria-busy={page === undefined}>
      <div class="deliveries-new">
        {held > 0 && (
          <button type="button" class="primary" onClick={showNew}>
            {held.toLocaleString('en')} new
          </button>
        )}
      </div>
      <p class="unseen" role="status">
        {held > 0 && 'There are new attempts.'}
      </p>
      {error !== undefined && (
        <p class="bad" role="alert">
          <Plain text={error} />{' '}
          <button type="button" onClick={reload}>
            Try again
          </button>
        </p>
      )}
      {before !== undefined && (
        <p>
          Older attempts.{' '}
          <a href={hrefWith({ before: undefined })} onClick={follow}>
            Show the newest
          </a>
        </p>
      )}
      {rows.length === 0 && error === undefined ? (
        <p class="empty">{page === undefined ? 'Loading …' : sayNone(filter)}</p>
      ) : (
        <table>
          <caption class="unseen">Attempts, the newest first</caption>
          <thead>
            <tr>
              <th scope="col" class="deliveries-at">
                Time
              </th>
              <th scope="col">Event</th>
              <th scope="col" class="deliveries-endpoint">
                Endpoint
              </th>
              <th scope="col" class="deliveries-attempt">
                Attempt
              </th>
              <th scope="col" class="deliveries-status">
                Status
              </th>
              <th scope="col" class="deliveries-outcome">
                Outcome
              </th>
              <th scope="col" class="deliveries-duration">
                Duration
              </th>
            </tr>
          </thead>
          <tbody ref={body} onKeyDown={onKeyDown}>
            {rows.map((row) => (
              <Row
                key={row.id}
                row={row}
                isOpen={row.id === opened}
                isReached={row.id === reached}
                onReach={setActive}
              />
            ))}
          </tbody>
        </table>
      )}
      {next !== null && (
        <p class="buttons">
          <a class="button" href={hrefWith({ before: next })} onClick={follow}>
            Older attempts
          </a>
        </p>
      )}
    </div>
  );
}

function sayNone({ type, kind, id, text }: AttemptFilter): string {
  return [type, kind, id, text].every((each) => each === undefined)
    ? 'No attempts yet. They appear here as they are made.'
    : 'No attempt has all of this. Change the filters.';
}

function Row({
  row,
  isOpen,
  isReached,
  onReach,
}: {
  readonly row: AttemptRow;
  readonly isOpen: boolean;
  readonly isReached: boolean;
  readonly onReach: (id: string) => void;
}) {
  const { id, type, eventId, endpoint } = row;
  return (
    <tr
      class={isOpen ? 'deliveries-open' : undefined}
      onClick={(event) => {
        // The whole row can be clicked, but not selected text and not the link itself.
        const isLink = event.target instanceof Element && event.target.closest('a') !== null;
        if (!isLink && getSelection()?.isCollapsed !== false) go({ attempt: id });
      }}
    >
      <td class="deliveries-at">
        <Time at={row.at} exact />
      </td>
      <td class="deliveries-event">
        <a
          href={hrefWith({ attempt: id })}
          data-attempt={id}
          tabIndex={isReached ? 0 : -1}
          aria-current={isOpen ? 'true' : undefined}
          title={toPlain(`${type}\n${eventId}`, { lines: true })}
          onClick={follow}
          onFocus={() => onReach(id)}
        >
          <Plain text={type} />
          <span class="mono faint">
            <Plain text={eventId} />
            {row.edited === true && ' (edited)'}
          </span>
        </a>
      </td>
      <td class="deliveries-endpoint" title={toPlain(endpoint)}>
        <Plain text={endpoint} />
      </td>
      <td class="deliveries-attempt">{row.attempt}</td>
      <td class="deliveries-status">{row.status ?? '–'}</td>
      <td class="deliveries-outcome">
        <KindMark kind={row.kind} />
        <span class="faint" title={toPlain(row.outcome ?? '')}>
          <Plain text={row.outcome ?? ''} />
        </span>
      </td>
      <td class="deliveries-duration">{formatMs(row.durationMs)}</td>
    </tr>
  );
}
