import type { ComponentChildren } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { AttemptDetail, AttemptLine, EventDetail, Message } from '../../../src/inspector/api.js';
import { Bytes, decodeBase64 } from '../bytes';
import { Copy } from '../copy';
import { useKeys } from '../keys';
import { staleFor } from '../live';
import { useEvery, useLoaded } from '../load';
import { LoadError } from '../load-error';
import { Plain, Sentence, toPlain } from '../plain';
import { ask, can } from '../server';
import { formatMs, now, Time } from '../time';
import { Mark } from '../tone';
import { follow, go, hrefOf, hrefWith, param } from '../url';
import { toCurl } from './copies';
import { OneEventActions } from './event-actions';
import { Resend } from './resend';
import './event.css';

const REFRESH_MS = 5_000;

export function EventView({ id }: { readonly id: string }) {
  const { data, error, reload } = useLoaded(
    `event ${id}`,
    (signal) => ask<EventDetail>(`events/${encodeURIComponent(id)}`, {}, signal),
    staleFor('events'),
  );
  useEvery(REFRESH_MS, reload);
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    scrollTo(0, 0);
    heading.current?.focus({ preventScroll: true });
  }, []);
  const deliveries = data?.deliveries.toReversed() ?? [];
  const named = deliveries.find((line) => line.id === param('attempt'));
  const shown = named ?? deliveries.find(({ tone }) => tone === data?.tone) ?? deliveries[0];
  const back = hrefWith({ event: undefined, attempt: undefined });
  const step = (by: number) => () => {
    const to = shown && deliveries[deliveries.indexOf(shown) + by];
    if (to?.id != null) go({ attempt: to.id }, { replace: true });
  };
  useKeys({ Escape: () => go({ event: undefined, attempt: undefined }), j: step(1), k: step(-1) });
  return (
    <article class="event" aria-labelledby="event-title">
      <div class="event-head">
        <a href={back} onClick={follow}>
          ← Events
        </a>
        <h2 id="event-title" class="mono" ref={heading} tabIndex={-1}>
          <Plain text={id} />
        </h2>
        {data !== undefined && (
          <>
            <span class="faint">
              <Plain text={data.type} />
            </span>
            <span class="buttons">
              <Copy title="Copy id" what="The id" text={() => id} />
              {data.command !== null && (
                <Copy title="Copy command" what="The command" text={() => `${data.command}\n`} />
              )}
            </span>
          </>
        )}
      </div>
      <LoadError error={error} reload={reload} />
      {data === undefined && error === undefined && <p class="faint">Loading …</p>}
      {data !== undefined && <Detail event={data} shown={shown} reload={reload} />}
    </article>
  );
}

function Detail({
  event,
  shown,
  reload,
}: {
  readonly event: EventDetail;
  readonly shown: AttemptLine | undefined;
  readonly reload: () => void;
}) {
  const { id, state, tone, verdict, explanation, history, deliveries, body } = event;
  const attemptId = shown?.id ?? undefined;
  const { data: attempt, error } = useLoaded(`attempt ${attemptId}`, async (signal) =>
    attemptId === undefined
      ? undefined
      : ask<AttemptDetail>(`attempts/${encodeURIComponent(attemptId)}`, {}, signal),
  );
  const isInbox = body !== 'none';
  return (
    <>
      <div class={`verdict verdict-${tone}`}>
        <p role="status">
          <Mark tone={tone} /> <Plain text={verdict} />
        </p>
      </div>
      <div class="event-parts">
        <section aria-label="Cause" class="event-part">
          <h3>Cause</h3>
          {/* The verdict as a sentence says nothing more. */}
          {explanation.what !== `${verdict}.` && explanation.what !== verdict && (
            <p class="wrap">
              <Sentence text={explanation.what} />
            </p>
          )}
          {explanation.fix !== null && (
            <p class="wrap">
              <strong>Fix:</strong> <Sentence text={explanation.fix} />
            </p>
          )}
          <div class="buttons">
            {attempt !== undefined && can('resend') && <Resend detail={attempt} />}
            {isInbox && <OneEventActions id={id} state={state} onDone={reload} />}
          </div>
          <Facts event={event} />
          {event.steps.length > 0 && <Steps steps={event.steps} />}
        </section>
        <div class="event-main">
          {isInbox && <Body event={event} />}
          {error !== undefined && (
            <p class="bad" role="alert">
              <Plain text={error} />
            </p>
          )}
          {attempt !== undefined && <Attempt attempt={attempt} />}
        </div>
        <div class="event-side">
          {isInbox && (
            <Timeline
              title="Attempts in the inbox"
              lines={history}
              isPart={history.length === MAX_HISTORY}
              shown={undefined}
            />
          )}
          {(deliveries.length > 0 || !isInbox) && (
            <Timeline title="Deliveries" lines={deliveries} shown={attemptId} />
          )}
        </div>
      </div>
    </>
  );
}

function idsOf(text: string | null): readonly (readonly [name: string, value: string])[] {
  if (text === null) return [];
  const { payload } = JSON.parse(text) as { readonly payload: unknown };
  return Object.entries(Object(payload) as Readonly<Record<string, unknown>>).flatMap(([name, value]) =>
    name.endsWith('_id') && typeof value === 'string' ? [[name, value] as const] : [],
  );
}

function Facts({ event }: { readonly event: EventDetail }) {
  const { state, origin, key, at, updatedAt, dueAt, text } = event;
  return (
    <dl class="facts">
      <Fact name="State">{state.replaceAll('-', ' ')}</Fact>
      <Fact name={origin === null ? 'First attempt' : 'Received'}>
        <Time at={at} full />
        {origin !== null && `, by ${origin}`}
      </Fact>
      {updatedAt !== null && (
        <Fact name="Changed">
          <Time at={updatedAt} full />
        </Fact>
      )}
      {dueAt !== null && (
        <Fact name={state !== 'leased' ? 'Due' : dueAt > now.value ? 'Lease until' : 'Lease ended'}>
          <Time at={dueAt} full />
        </Fact>
      )}
      {[...(key === null ? [] : [['Ordering key', key] as const]), ...idsOf(text)].map(([name, value]) => (
        <Fact key={name} name={name}>
          <a
            class="mono"
            title={`All events of ${toPlain(value)}`}
            href={hrefOf({ view: 'events', find: value })}
            onClick={follow}
          >
            <Plain text={value} />
          </a>
        </Fact>
      ))}
    </dl>
  );
}

function Fact({ name, children }: { readonly name: string; readonly children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** A step without a result has begun, but its effect is unknown. */
function Steps({ steps }: Pick<EventDetail, 'steps'>) {
  return (
    <section aria-label="Steps">
      <h3>
        Steps <span class="faint">{steps.length}</span>
      </h3>
      <ol class="timeline">
        {steps.map(({ name, attempt, at, hasResult }) => (
          <li key={name}>
            <Mark tone={hasResult ? 'good' : 'bad'} />
            <div>
              <div class="timeline-head">
                <Plain text={name} />
                <span class="faint">
                  attempt {attempt}, <Time at={at} />
                </span>
              </div>
              {!hasResult && (
                <p class="bad">Unknown: the step recorded no result, so its effect may have happened.</p>
              )}
            </div>
          </li>
        ))}
      </ol>
    </section>
  );
}

/** An inbox keeps at most this many attempts at an event. */
const MAX_HISTORY = 10;

function Timeline({
  title,
  lines,
  isPart = false,
  shown,
}: {
  readonly title: string;
  readonly lines: readonly AttemptLine[];
  readonly isPart?: boolean;
  readonly shown: string | undefined;
}) {
  const endpoints = new Set(lines.map(({ endpoint }) => endpoint));
  return (
    <section aria-label={title}>
      <h3>
        {title} <span class="faint">{isPart ? `the newest ${lines.length}` : lines.length}</span>
      </h3>
      {lines.length === 0 && <p class="faint">No attempt has ended.</p>}
      <ol class="timeline">
        {lines.toReversed().map((line, index) => {
          const { id, at, name, tone, result, endpoint, durationMs, faults } = line;
          return (
            <li key={index} class={id !== null && id === shown ? 'timeline-shown' : undefined}>
              <Mark tone={tone} />
              <div>
                <div class="timeline-head">
                  {id === null ? (
                    <strong>{name}</strong>
                  ) : (
                    <a
                      href={hrefWith({ attempt: id })}
                      aria-current={id === shown ? 'true' : undefined}
                      onClick={follow}
                    >
                      {name}
                    </a>
                  )}
                  <span class="faint">
                    <Time at={at} /> · {formatMs(durationMs)}
                  </span>
                </div>
                <div class="timeline-result">
                  <Plain text={result} />
                  {faults.map((fault) => (
                    <span class="badge" key={fault}>
                      injected: {fault}
                    </span>
                  ))}
                </div>
                {endpoint !== null && endpoints.size > 1 && (
                  <div class="faint">
                    to <Plain text={endpoint} />
                  </div>
                )}
              </div>
            </li>
          );
        })}
      </ol>
    </section>
  );
}

function Body({ event: { id, body, text } }: { readonly event: EventDetail }) {
  const [isAsked, setAsked] = useState(false);
  const { data = text, error } = useLoaded(`body of ${id} ${isAsked}`, async (signal) => {
    if (!isAsked) return undefined;
    const path = `events/${encodeURIComponent(id)}/body`;
    return (await ask<{ readonly json: string }>(path, {}, signal)).json;
  });
  const bytes = useMemo(() => new TextEncoder().encode(data ?? ''), [data]);
  return (
    <section aria-label="Body">
      <h3>Body</h3>
      {body === 'pruned' && <p class="faint">The body has been pruned or cannot be read.</p>}
      {body === 'stored' && data === null && !isAsked && (
        <button type="button" onClick={() => setAsked(true)}>
          Show the body
        </button>
      )}
      {data === null && isAsked && error === undefined && <p class="faint">Loading …</p>}
      {error !== undefined && (
        <p class="bad" role="alert">
          <Plain text={error} />
        </p>
      )}
      {data !== null && <Bytes bytes={bytes} label="Body" />}
    </section>
  );
}

function Attempt({ attempt }: { readonly attempt: AttemptDetail }) {
  const { request, response, error, edited, elsewhere } = attempt;
  return (
    <>
      <section aria-label="Request">
        <h3>
          Request of attempt {attempt.attempt}
          {edited === true && <span class="badge">edited: not the body of the event</span>}
          {elsewhere === true && <span class="badge">sent elsewhere: does not count</span>}
        </h3>
        <div class="buttons">
          <Copy title="Copy as curl" what="The curl command" text={() => toCurl(attempt)} />
        </div>
        <p class="mono wrap">
          <Plain text={`${request.method} ${request.url}`} />
        </p>
        <Contents message={request} label="Request" />
      </section>
      <section aria-label="Response">
        <h3>Response {response !== null && <span class="mono">{response.status}</span>}</h3>
        {response === null ? (
          <p class="wrap">
            None: <Plain text={error ?? 'no response'} />
          </p>
        ) : (
          <>
            <Contents message={response} label="Response" />
            {response.cut && <p class="faint">Only the start of the body is kept.</p>}
          </>
        )}
      </section>
    </>
  );
}

function Contents({ message, label }: { readonly message: Message; readonly label: string }) {
  const bytes = useMemo(() => decodeBase64(message.body), [message.body]);
  const headers = Object.entries(message.headers);
  return (
    <>
      <Bytes bytes={bytes} label={`${label}: body`} />
      {headers.length > 0 && (
        <details class="headers">
          <summary>{headers.length === 1 ? '1 header' : `${headers.length} headers`}</summary>
          <table>
            <caption class="unseen">{label}: headers</caption>
            <tbody>
              {headers.map(([name, value]) => (
                <tr key={name}>
                  <th scope="row">
                    <Plain text={name} />
                  </th>
                  <td class="mono wrap">
                    <Plain text={value} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </details>
      )}
    </>
  );
}
