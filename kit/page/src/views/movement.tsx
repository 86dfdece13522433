import { useEffect, useMemo, useRef } from 'preact/hooks';
import type { Found, MovementReport, MovementRow } from '../../../src/inspector/api.js';
import { Bytes } from '../bytes';
import { Copy } from '../copy';
import { useKeys } from '../keys';
import { useLoaded } from '../load';
import { LoadError } from '../load-error';
import { Plain, Sentence, toPlain } from '../plain';
import { ask } from '../server';
import { Time } from '../time';
import { Mark } from '../tone';
import { follow, go, hrefOf, hrefWith } from '../url';
import './event.css';

export function FoundView({ what }: { readonly what: string }) {
  const { data, error, reload } = useLoaded(`find ${what}`, (signal) =>
    ask<Found>('find', { key: what }, signal),
  );
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus({ preventScroll: true }), []);
  useEffect(() => {
    if (data === undefined) return;
    if (data.event !== null) go({ find: undefined, event: data.event }, { replace: true });
    // Without an inbox, the bodies of the attempts are searched instead.
    else if (data.movement === null) go({ find: undefined, text: what }, { replace: true });
  }, [data]);
  useKeys({ Escape: () => go({ find: undefined }) });
  return (
    <article class="event" aria-labelledby="found-title">
      <div class="event-head">
        <a href={hrefWith({ find: undefined })} onClick={follow}>
          ← Events
        </a>
        <h2 id="found-title" class="mono" ref={heading} tabIndex={-1}>
          <Plain text={what} />
        </h2>
        <span class="buttons">
          <Copy title="Copy id" what="The id" text={() => what} />
        </span>
      </div>
      <LoadError error={error} reload={reload} />
      {data === undefined && error === undefined && <p class="faint">Searching every event …</p>}
      {data?.movement != null && <Movement what={what} movement={data.movement} />}
    </article>
  );
}

function Movement({ what, movement }: { readonly what: string; readonly movement: MovementReport }) {
  const { rows, unread, proof, isProven } = movement;
  const last = rows.at(-1);
  const count = rows.length === 1 ? '1 event' : `${rows.length.toLocaleString('en')} events`;
  return (
    <>
      <div class={`verdict verdict-${last?.tone ?? 'doubtful'}`}>
        <p role="status">
          <Mark tone={last?.tone ?? 'doubtful'} />{' '}
          {last === undefined ? (
            <>
              No event has the id, the ordering key or the payload value <Plain text={what} />.
            </>
          ) : (
            <>
              {count}, the last <Plain text={last.type} />: <Plain text={last.verdict} />
            </>
          )}
        </p>
        <p>
          <Mark tone={isProven ? 'good' : 'doubtful'} /> <Sentence text={proof} />
        </p>
        {unread > 0 && (
          <p class="faint">
            {unread.toLocaleString('en')} events could not be searched: their text is pruned, imported or
            unreadable.
          </p>
        )}
      </div>
      <ol class="timeline story" aria-label="Events of the movement">
        {rows.map((row) => (
          <Step key={row.id} row={row} />
        ))}
      </ol>
    </>
  );
}

function Step({ row }: { readonly row: MovementRow }) {
  const { id, type, state, tone, verdict, attempts, createdAt, origin, text } = row;
  const bytes = useMemo(() => new TextEncoder().encode(text ?? ''), [text]);
  return (
    <li>
      <Mark tone={tone} />
      <div>
        <div class="timeline-head">
          <strong>
            <Plain text={type} />
          </strong>
          <span class="faint">
            created <Time at={createdAt} full />
          </span>
        </div>
        <a class="mono" href={hrefOf({ view: 'events', event: id })} onClick={follow}>
          <Plain text={id} />
        </a>
        <p class="wrap">
          <Plain text={verdict} />
        </p>
        <p class="faint">
          {state}, {attempts === 1 ? '1 attempt' : `${attempts} attempts`}, by {origin}
        </p>
        {text !== null && (
          <details>
            <summary>Body</summary>
            <Bytes bytes={bytes} label={`Body of ${toPlain(id)}`} />
          </details>
        )}
      </div>
    </li>
  );
}
