import { useEffect, useRef, useState } from 'preact/hooks';
import type { InboxCounts, InboxPage, InboxRow } from '../../../src/inspector/api.js';
import { Dialog } from '../dialog';
import { staleFor, tellChanged } from '../live';
import { type Loaded, useLoaded } from '../load';
import { attempt } from '../notice';
import { toPlain } from '../plain';
import { act, ask, can } from '../server';
import { Age } from '../time';
import { follow, go, hrefWith, param } from '../url';
import './inbox.css';
import { InboxEvent } from './inbox-event';
import { InboxList } from './inbox-list';

type InboxState = InboxRow['state'];

/** What a state means. What needs a person comes first. */
const STATES: Readonly<Record<InboxState, string>> = {
  dead: 'They have failed for good, and run again only if a person requeues them.',
  failed: 'They have failed, and run again when they are due.',
  leased:
    'A process runs them, or has stopped before it finished: then their lease ends, and they run again.',
  received: 'They are recorded, and run when they are due.',
  parked: 'Their type is unknown to this release, or left out by --type. They wait for a run that takes it.',
  done: 'Their handler finished, or they need none.',
};
const NAMES = Object.keys(STATES) as readonly InboxState[];
const DAY_MS = 86_400_000;
const isStale = staleFor('inbox');

/** The first state that has events, or `null`. */
async function findFirstState(signal: AbortSignal): Promise<InboxState | null> {
  for (const state of NAMES) {
    const { rows } = await ask<InboxPage>('inbox/events', { state, limit: 1 }, signal);
    if (rows.length > 0) return state;
  }
  return null;
}

/** The events of an inbox by their state, and one of them in detail. */
export function InboxView() {
  const named = NAMES.find((each) => each === param('state'));
  const first: Loaded<InboxState | null> = useLoaded(
    'first state',
    async (signal) => named ?? findFirstState(signal),
    (entry) => isEmpty && isStale(entry),
  );
  const isEmpty = first.data === null;
  const state = named ?? first.data ?? undefined;
  // To count a million events takes longer than to list the first of them, so the list is asked for first.
  const [isListed, setListed] = useState(false);
  const isCounted = isListed || isEmpty;
  const counts = useLoaded(
    isCounted ? 'counts' : 'no counts yet',
    async (signal) => (isCounted ? ask<InboxCounts>('inbox/counts', {}, signal) : undefined),
    isStale,
  );
  const countOf = (each: InboxState) => counts.data?.find((count) => count.state === each);
  const order = param('order') === 'oldest' ? 'oldest' : 'newest';
  const event = param('event');
  useEffect(() => {
    // So that it stays when others arrive.
    if (named === undefined && state !== undefined) go({ state }, { replace: true });
  }, [named, state]);
  useReturnOfFocus(event);

  return (
    <div class={event === undefined ? 'inbox' : 'inbox inbox-with-event'}>
      <section class="inbox-main" aria-labelledby="inbox-title">
        <div class="inbox-bar">
          <h2 id="inbox-title">Inbox</h2>
          <Find />
          {can('prune') && <Prune done={countOf('done')?.count} />}
        </div>
        {counts.error !== undefined && (
          <p class="bad" role="alert">
            The counts could not be read: <bdi>{toPlain(counts.error)}</bdi>
          </p>
        )}
        <nav class="inbox-states" aria-label="States">
          {NAMES.map((each) => {
            const { count, oldest = null } = countOf(each) ?? {};
            return (
              <a
                key={each}
                href={hrefWith({ state: each, event: undefined })}
                aria-current={each === state ? 'true' : undefined}
                onClick={follow}
              >
                {each} <strong>{count?.toLocaleString() ?? '…'}</strong>
                <small>
                  {oldest === null ? (
                    '–'
                  ) : (
                    <>
                      oldest <Age since={oldest} />
                    </>
                  )}
                </small>
              </a>
            );
          })}
        </nav>
        {state === undefined ? (
          <p class="empty">
            {isEmpty ? 'The inbox has no events yet.' : toPlain(first.error ?? 'Loading …')}
          </p>
        ) : (
          <>
            <div class="inbox-bar">
              <p class="faint">{STATES[state]}</p>
              <label class="inbox-order">
                Order
                <select value={order} onChange={({ currentTarget }) => go({ order: currentTarget.value })}>
                  <option value="newest">newest first</option>
                  <option value="oldest">oldest first</option>
                </select>
              </label>
            </div>
            <InboxList
              key={`${state} ${order}`}
              state={state}
              order={order}
              total={countOf(state)?.count}
              onListed={() => setListed(true)}
            />
          </>
        )}
      </section>
      {event !== undefined && <InboxEvent key={event} id={event} />}
    </div>
  );
}

/** When the event is closed, the focus returns to its row. */
function useReturnOfFocus(event: string | undefined): void {
  const before = useRef(event);
  useEffect(() => {
    const closed = before.current;
    before.current = event;
    if (event !== undefined || closed === undefined) return;
    const row = document.querySelector<HTMLElement>(`[data-event="${CSS.escape(closed)}"]`);
    (row ?? document.querySelector<HTMLElement>('.inbox-scroll'))?.focus();
  }, [event]);
}

function Find() {
  const [id, setId] = useState('');
  return (
    <search>
      <form
        class="inbox-find"
        onSubmit={(submitted) => {
          submitted.preventDefault();
          if (id.trim() !== '') go({ event: id.trim() });
        }}
      >
        <label>
          Id of an event
          <input
            type="search"
            value={id}
            spellcheck={false}
            autocomplete="off"
            onInput={({ currentTarget }) => setId(currentTarget.value)}
          />
        </label>
        <button type="submit">Find</button>
      </form>
    </search>
  );
}

function Prune({ done }: { readonly done: number | undefined }) {
  const [isAsking, setAsking] = useState(false);
  const [days, setDays] = useState('30');
  const [isRunning, setRunning] = useState(false);
  async function prune() {
    setAsking(false);
    setRunning(true);
    await attempt(
      () => act('prune', { olderThanMs: Number(days) * DAY_MS }),
      ({ pruned }) =>
        pruned === 1 ? '1 event was pruned.' : `${pruned.toLocaleString()} events were pruned.`,
    );
    setRunning(false);
    tellChanged('inbox');
  }
  return (
    <>
      <button type="button" disabled={isRunning} onClick={() => setAsking(true)}>
        {isRunning ? 'Pruning …' : 'Prune …'}
      </button>
      {isAsking && (
        <Dialog title="Prune the inbox" submit="Prune" onSubmit={prune} onClose={() => setAsking(false)}>
          <p>
            This removes the payloads and the attempts of events that have been done for longer than this.
            Their ids stay, so that an event that is delivered again is still a duplicate. It cannot be
            undone.
          </p>
          {done !== undefined && (
            <p>
              {done === 1 ? '1 event is done' : `${done.toLocaleString()} events are done`}; with 0 days, all
              of them are pruned.
            </p>
          )}
          <label>
            Done for more than this many days
            <input
              type="number"
              min="0"
              step="any"
              required
              value={days}
              onInput={({ currentTarget }) => setDays(currentTarget.value)}
            />
          </label>
        </Dialog>
      )}
    </>
  );
}
