import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { InboxDetail } from '../../../src/inspector/api.js';
import { Bytes } from '../bytes';
import { staleFor, tellChanged } from '../live';
import { useEvery, useLoaded } from '../load';
import { attempt } from '../notice';
import { Plain, toPlain } from '../plain';
import { act, ask, can } from '../server';
import { now, Time } from '../time';
import { follow, hrefWith } from '../url';
import { REFRESH_MS } from './inbox-list';

/** Outcomes after which nothing is left to do here. */
const GOOD_OUTCOMES: Readonly<Record<string, string>> = {
  handled: 'ran: its handler finished',
  duplicate: 'was done before, so it did not run again',
  queued: 'is stored, and runs in a worker or in a process with a handler for its type',
};
/** The others. */
const BAD_OUTCOMES: Readonly<Record<string, string>> = {
  failed: 'failed, and runs again when it is due. See its last error',
  dead: 'failed for good. See its last error',
  parked:
    'did not run: its type was unknown when it came or is left out by --type, and it waits for a process that runs its type',
  busy: 'has no result: another process has it, it is not due yet, or the app is closing',
  unavailable: 'has no result: the inbox, the queue or the secret could not be reached. Try again',
  rejected: 'did not run: it is not a valid event',
};

const pathOf = (id: string) => `inbox/events/${encodeURIComponent(id)}`;

/** One event: its state, its attempts, and what can be done. The payload is not even asked for before it is shown. */
export function InboxEvent({ id }: { readonly id: string }) {
  const { data, error, reload } = useLoaded(
    pathOf(id),
    (signal) => ask<InboxDetail>(pathOf(id), {}, signal),
    staleFor('inbox'),
  );
  useEvery(REFRESH_MS, reload);
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    // Not when the page was opened with the event.
    if (document.activeElement !== document.body) heading.current?.focus();
  }, []);
  return (
    <section class="inbox-event" aria-labelledby="inbox-event-title">
      <div class="inbox-bar">
        <h2 id="inbox-event-title" ref={heading} tabIndex={-1}>
          <Plain text={id} />
        </h2>
        <a href={hrefWith({ event: undefined })} onClick={follow}>
          Close
        </a>
      </div>
      {error !== undefined && (
        <p class="bad" role="alert">
          <bdi>{toPlain(error)}</bdi>{' '}
          <button type="button" onClick={reload}>
            Try again
          </button>
        </p>
      )}
      {data === undefined && error === undefined && <p class="faint">Loading …</p>}
      {data !== undefined && <Facts event={data} />}
    </section>
  );
}

function Facts({ event }: { readonly event: InboxDetail }) {
  const { state, type, origin, key, traceparent, attempts, lastError, history, pruned } = event;
  const { receivedAt, updatedAt, dueAt } = event;
  return (
    <>
      <Actions event={event} />
      <dl class="inbox-facts">
        <dt>State</dt>
        <dd>
          <strong class={state === 'dead' || state === 'failed' ? 'bad' : undefined}>{state}</strong> since{' '}
          <Time at={updatedAt} />
        </dd>
        <dt>Type</dt>
        <dd>
          <Plain text={type} />
        </dd>
        {key !== null && (
          <>
            <dt>Ordering key</dt>
            <dd>
              <Plain text={key} />
            </dd>
          </>
        )}
        <dt>Received</dt>
        <dd>
          <Time at={receivedAt} />, by <Plain text={origin} />
        </dd>
        {traceparent !== null && (
          <>
            <dt>Trace</dt>
            <dd>
              <Plain text={traceparent} />
            </dd>
          </>
        )}
        <dt>Attempts</dt>
        <dd>{attempts}</dd>
        {dueAt !== null && (
          <>
            <dt>{state !== 'leased' ? 'Due' : isLeased(event) ? 'Lease until' : 'Lease ended'}</dt>
            <dd>
              <Time at={dueAt} />
            </dd>
          </>
        )}
      </dl>
      {lastError !== null && (
        <>
          <h3>Last error</h3>
          <p class="inbox-text">{toPlain(lastError, { lines: true })}</p>
        </>
      )}
      <h3>Attempts that have ended</h3>
      {history.length === 0 ? (
        <p class="faint">{pruned ? 'They are pruned.' : 'None.'}</p>
      ) : (
        <ol class="inbox-history">
          {history.map(({ attempt: number, startedAt, endedAt, result, error }, index) => (
            <li key={index} value={number}>
              <strong class={result === 'done' ? 'good' : 'bad'}>{result}</strong> – started{' '}
              <Time at={startedAt} />, ended <Time at={endedAt} /> ({(endedAt - startedAt).toLocaleString()}{' '}
              ms)
              {result === 'lapsed' && <p>Its lease ended before it did, such as when the process stopped.</p>}
              {error !== null && <p class="inbox-text">{toPlain(error, { lines: true })}</p>}
            </li>
          ))}
        </ol>
      )}
      <h3>Payload</h3>
      {pruned ? <p class="faint">It is pruned.</p> : <Payload id={event.id} />}
    </>
  );
}

/** Whether a process runs the event. Once its lease has ended, none does, although the state stays. */
function isLeased({ state, dueAt }: InboxDetail): boolean {
  return state === 'leased' && (dueAt ?? 0) > now.value;
}

function Actions({ event }: { readonly event: InboxDetail }) {
  const { id, state, pruned } = event;
  const [isBusy, setBusy] = useState(false);
  async function during(work: () => Promise<unknown>) {
    setBusy(true);
    await work();
    setBusy(false);
    tellChanged('inbox');
  }
  const requeue = () =>
    attempt(
      () => act('requeue', { id }),
      () => `${id} is due now, and its attempts count from 0.`,
    );
  const run = () =>
    attempt(
      async () => {
        const { outcome } = await act('run', { id });
        const good = GOOD_OUTCOMES[outcome];
        if (good !== undefined) return good;
        throw new Error(`${id} ${BAD_OUTCOMES[outcome] ?? `ended with ${outcome}`}.`);
      },
      (good) => `${id} ${good}.`,
    );
  const canRequeue = can('requeue') && (state === 'dead' || state === 'failed');
  const canRun = can('run') && state !== 'done' && !isLeased(event) && !pruned;
  if (!canRequeue && !canRun) return null;
  return (
    <div class="buttons">
      {canRun && (
        <button type="button" class="primary" disabled={isBusy} onClick={() => during(run)}>
          Run now
        </button>
      )}
      {canRequeue && (
        <button type="button" disabled={isBusy} onClick={() => during(requeue)}>
          Requeue
        </button>
      )}
    </div>
  );
}

function Payload({ id }: { readonly id: string }) {
  const [isAsked, setAsked] = useState(false);
  if (isAsked) return <ShownPayload id={id} />;
  return (
    <button type="button" onClick={() => setAsked(true)}>
      Show payload
    </button>
  );
}

function ShownPayload({ id }: { readonly id: string }) {
  const { data, error } = useLoaded(`payload of ${id}`, (signal) =>
    ask<InboxDetail>(pathOf(id), { payload: 1 }, signal),
  );
  const json = data?.json;
  const bytes = useMemo(() => new TextEncoder().encode(json ?? ''), [json]);
  if (error !== undefined) return <p class="bad">{toPlain(error)}</p>;
  if (data === undefined) return <p class="faint">Loading …</p>;
  return json === null ? <p class="faint">It is pruned.</p> : <Bytes bytes={bytes} label="Payload" />;
}
