import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { AttemptDetail, AttemptPage, AttemptRow, Message } from '../../../src/inspector/api.js';
import { Bytes, decodeBase64 } from '../bytes';
import { Dialog } from '../dialog';
import { useLoaded } from '../load';
import { tellReader } from '../notice';
import { Plain } from '../plain';
import { ask, can } from '../server';
import { Time } from '../time';
import { follow, go, hrefWith } from '../url';
import { toCurl, toFixture, toTest } from './deliveries-copies';
import { Resend } from './deliveries-resend';
import { formatMs, KindMark } from './deliveries-words';

/** One attempt: why it ended as it did, what was sent and received, and what can be done with it. */
export function AttemptPanel({ id }: { readonly id: string }) {
  const heading = useRef<HTMLHeadingElement>(null);
  const { data, error } = useLoaded(`attempt ${id}`, (signal) =>
    ask<AttemptDetail>(`deliveries/${encodeURIComponent(id)}`, {}, signal),
  );
  useEffect(() => {
    const { current } = heading;
    current?.focus({ preventScroll: true });
    // Where it replaces the list, the page may be scrolled far down.
    if ((current?.getBoundingClientRect().top ?? 0) < 0) current?.scrollIntoView();
  }, [id]);
  useEffect(() => {
    function onKey(event: KeyboardEvent): void {
      // A dialog is closed first.
      if (event.key !== 'Escape' || event.defaultPrevented || document.querySelector('dialog[open]')) return;
      go({ attempt: undefined });
    }
    document.addEventListener('keydown', onKey);
    return () => document.removeEventListener('keydown', onKey);
  }, []);
  return (
    <section class="deliveries-detail" aria-label="Attempt">
      <div class="deliveries-head">
        <h3 ref={heading} tabIndex={-1}>
          {data === undefined ? 'Attempt' : <Plain text={data.type} />}
        </h3>
        <a class="button" href={hrefWith({ attempt: undefined })} onClick={follow}>
          <span class="deliveries-back">← Back to the list</span>
          <span class="deliveries-close">Close</span>
        </a>
      </div>
      {data === undefined ? (
        <p class={error === undefined ? 'faint' : 'bad'} role={error === undefined ? undefined : 'alert'}>
          <Plain text={error ?? 'Loading …'} />
        </p>
      ) : (
        <Detail key={id} detail={data} />
      )}
    </section>
  );
}

function Detail({ detail }: { readonly detail: AttemptDetail }) {
  const { verdict, request, response, error, faults } = detail;
  return (
    <>
      <div class="deliveries-verdict">
        <KindMark kind={detail.kind} />
        <p>
          <Plain text={verdict.what} />
        </p>
        {verdict.fix !== null && (
          <p>
            <strong>Fix:</strong> <Plain text={verdict.fix} />
          </p>
        )}
      </div>
      <div class="buttons">
        {can('resend') && <Resend detail={detail} />}
        <Copies detail={detail} />
      </div>
      <dl class="deliveries-facts">
        <Fact name="Event" value={detail.eventId} />
        {detail.edited === true && <Fact name="Body" value="edited: not that of the event" />}
        <Fact name="Endpoint" value={detail.endpoint} />
        <Fact name="Attempt" value={`${detail.attempt}`} />
        <Fact name="Time" value={detail.at} />
        <Fact name="Duration" value={formatMs(detail.durationMs)} />
        <Fact name="Status" value={`${detail.status ?? 'none'}`} />
        <Fact name="Outcome" value={detail.outcome ?? 'none'} />
        <Fact name="Faults" value={faults.length === 0 ? 'none' : faults.join(', ')} />
        {error !== null && <Fact name="Error" value={error} />}
      </dl>
      <Siblings detail={detail} />
      <h4>Request</h4>
      <p class="mono deliveries-line">
        <Plain text={`${request.method} ${request.url}`} />
      </p>
      <Contents message={request} label="Request" />
      <h4>Response</h4>
      {response === null ? (
        <p class="faint">There was none.</p>
      ) : (
        <>
          <p class="mono">{response.status}</p>
          <Contents message={response} label="Response" />
          {response.cut && <p class="faint">Only the start of the body was kept.</p>}
        </>
      )}
    </>
  );
}

function Fact({ name, value }: { readonly name: string; readonly value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        <Plain text={value} />
      </dd>
    </div>
  );
}

function Contents({ message, label }: { readonly message: Message; readonly label: string }) {
  const bytes = useMemo(() => decodeBase64(message.body), [message.body]);
  const headers = Object.entries(message.headers);
  return (
    <>
      {headers.length > 0 && (
        <table class="deliveries-headers">
          <caption class="unseen">{label}: headers</caption>
          <tbody>
            {headers.map(([name, value]) => (
              <tr key={name}>
                <th scope="row">
                  <Plain text={name} />
                </th>
                <td>
                  <Plain text={value} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <Bytes bytes={bytes} label={`${label}: body`} />
    </>
  );
}

const MAX_SIBLINGS = 50;

/** The other attempts of the event. */
function Siblings({ detail: { id, eventId, endpoint } }: { readonly detail: AttemptRow }) {
  const { data } = useLoaded(
    `event ${eventId}`,
    (signal) => ask<AttemptPage>('deliveries', { id: eventId, limit: MAX_SIBLINGS }, signal),
    (entry) => entry.kind === 'reset' || (entry.kind === 'attempt' && entry.row.eventId === eventId),
  );
  const all = data?.rows.filter((row) => row.eventId === eventId) ?? [];
  const others = all.filter((row) => row.id !== id);
  if (others.length === 0) return null;
  return (
    <section aria-label="Other attempts of this event">
      <h4>Other attempts of this event</h4>
      <ul class="deliveries-siblings">
        {others.map((row) => (
          <li key={row.id}>
            <a href={hrefWith({ attempt: row.id })} onClick={follow}>
              {nameAttempt(row, all)}, <Time at={row.at} exact />
            </a>{' '}
            <KindMark kind={row.kind} />
            {row.endpoint !== endpoint && (
              <span class="faint">
                to <Plain text={row.endpoint} />
              </span>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}

/** A delivery that a person sends again begins at attempt 1, as the first one did. */
function nameAttempt(row: AttemptRow, newestFirst: readonly AttemptRow[]): string {
  const isFirst = (each: AttemptRow) => each.attempt === 1 && each.endpoint === row.endpoint;
  const isAgain =
    isFirst(row) && !row.faults.includes('duplicate') && newestFirst.findLast(isFirst)?.id !== row.id;
  return isAgain ? 'Sent again' : `Attempt ${row.attempt}`;
}

const COPIES = [
  { title: 'Copy as curl', format: toCurl },
  { title: 'Copy as fixture', format: toFixture },
  { title: 'Copy as test', format: toTest },
] as const;

function Copies({ detail }: { readonly detail: AttemptDetail }) {
  const [shown, setShown] = useState<{ readonly title: string; readonly text: string }>();

  async function copy(title: string, text: string): Promise<void> {
    try {
      await navigator.clipboard.writeText(text);
      tellReader('Copied.');
    } catch {
      // A page has no clipboard where its origin is not secure, or where the reader refused it.
      setShown({ title, text });
    }
  }

  const close = () => setShown(undefined);
  return (
    <>
      {COPIES.map(({ title, format }) => (
        <button type="button" key={title} onClick={() => copy(title, format(detail))}>
          {title}
        </button>
      ))}
      {shown !== undefined && (
        <Dialog title={shown.title} submit="Done" onSubmit={close} onClose={close}>
          <p>This browser gives the page no clipboard. Copy the selected text.</p>
          <Selected text={shown.text} />
        </Dialog>
      )}
    </>
  );
}

function Selected({ text }: { readonly text: string }) {
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    // After the dialog has given the focus to its first field.
    const frame = requestAnimationFrame(() => field.current?.select());
    return () => cancelAnimationFrame(frame);
  }, []);
  return (
    <textarea ref={field} class="deliveries-body" aria-label="Text to copy" rows={16} readOnly value={text} />
  );
}
