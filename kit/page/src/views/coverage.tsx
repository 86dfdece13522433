import { useEffect, useState } from 'preact/hooks';
import type { CoverageReport, GapRow } from '../../../src/inspector/api.js';
import { Dialog } from '../dialog';
import { staleFor, tellChanged } from '../live';
import { useLoaded } from '../load';
import { attempt } from '../notice';
import { Plain, toPlain } from '../plain';
import { act, ask, can, post } from '../server';
import { Age, Time } from '../time';
import './coverage.css';

/** While a picture is drawn, it is asked this often how far it is. */
const DRAWING_INTERVAL_MS = 500;

/** What is proven to be in the inbox, and where events can be missing. */
export function CoverageView() {
  const { data, error, reload } = useLoaded(
    'coverage',
    (signal) => ask<CoverageReport>('coverage', {}, signal),
    staleFor('coverage'),
  );
  useEffect(() => {
    if (data?.picture.state !== 'drawing') return;
    const timer = setTimeout(reload, DRAWING_INTERVAL_MS);
    return () => clearTimeout(timer);
  }, [data]);
  const isUndrawn = data?.picture.state === 'none';
  useEffect(() => {
    // The first picture needs nobody to ask for it. Where that fails, the button is there.
    if (isUndrawn) draw().then(reload, () => undefined);
  }, [isUndrawn]);
  return (
    <section class="coverage" aria-labelledby="coverage-title">
      <h2 id="coverage-title">Coverage</h2>
      {error !== undefined && (
        <p class="bad" role="alert">
          The coverage could not be read: <bdi>{toPlain(error)}</bdi>{' '}
          <button type="button" onClick={reload}>
            Try again
          </button>
        </p>
      )}
      {data === undefined && error === undefined && <p class="faint">Loading …</p>}
      {data !== undefined && (
        <>
          <Proven report={data} />
          <Picture report={data} />
          <Gaps gaps={data.gaps} watermark={data.watermark} />
        </>
      )}
    </section>
  );
}

/** Has the picture drawn anew, unless it is being drawn. */
const draw = () => post<CoverageReport>('coverage');

/** What is proven, in words. It never says more than that. */
function Proven({ report: { since, watermark, gaps, lastPoll } }: { readonly report: CoverageReport }) {
  const open = gaps.filter(({ state }) => state === 'open').length;
  const acknowledged = gaps.length - open;
  return (
    <>
      {watermark === null ? (
        <p>
          <strong class="doubtful">Nothing is proven yet:</strong> no poll has read the list of the service.
        </p>
      ) : (
        <p>
          <strong class={open > 0 ? 'bad' : undefined}>
            Proven up to <Time at={watermark} />
            {open > 0 && `, except in ${open.toLocaleString()} open ${open === 1 ? 'gap' : 'gaps'}`}.
          </strong>{' '}
          That is <Age since={watermark} /> ago; nothing is proven of the time since.
          {acknowledged > 0 &&
            ` ${acknowledged.toLocaleString()} ${acknowledged === 1 ? 'gap is' : 'gaps are'} acknowledged, not proven.`}
        </p>
      )}
      <dl class="coverage-facts">
        <dt>Opening date</dt>
        <dd>{since === null ? 'None before the first poll.' : <Time at={since} />}</dd>
        <dt>Watermark</dt>
        <dd>{watermark === null ? 'None before the list has answered.' : <Time at={watermark} />}</dd>
        <dt>Last poll</dt>
        <dd>
          {lastPoll === null ? (
            'What it reported is known only in the process that polls.'
          ) : (
            <>
              <Time at={lastPoll.at} />: <Plain text={lastPoll.diagnosis} />
              {lastPoll.problems.length > 0 && (
                <ul aria-label="Problems of the last poll">
                  {lastPoll.problems.map((problem, index) => (
                    <li key={index} class="bad">
                      <Plain text={problem} />
                    </li>
                  ))}
                </ul>
              )}
            </>
          )}
        </dd>
      </dl>
    </>
  );
}

function Picture({ report: { picture, watermark, gaps } }: { readonly report: CoverageReport }) {
  async function drawAgain() {
    await attempt(draw, () => 'The picture is drawn.');
    tellChanged('coverage');
  }
  const proven =
    watermark === null ? 'nothing is proven yet' : `proven up to ${new Date(watermark).toISOString()}`;
  return (
    <>
      <div class="coverage-bar">
        <p role="status">
          {picture.state === 'none' && 'The picture is not drawn yet.'}
          {picture.state === 'failed' && (
            <span class="bad">
              The picture could not be drawn: <bdi>{toPlain(picture.why)}</bdi>
            </span>
          )}
          {picture.state === 'ready' && (
            <>
              The picture shows the inbox as it was at <Time at={picture.at} />.
            </>
          )}
          {picture.state === 'drawing' && (
            <>
              Drawing: {picture.read.toLocaleString()} of {picture.total.toLocaleString()} events read.
            </>
          )}
        </p>
        {picture.state === 'drawing' ? (
          <progress
            aria-label="Events read"
            max={Math.max(1, picture.total)}
            value={picture.total === 0 ? undefined : picture.read}
          />
        ) : (
          <button type="button" onClick={drawAgain}>
            {picture.state === 'none' ? 'Draw' : 'Draw again'}
          </button>
        )}
      </div>
      {picture.state === 'ready' && (
        <a class="coverage-picture" href="./api/coverage.svg" aria-label="The picture by itself">
          <img
            src={`./api/coverage.svg?at=${picture.at}`}
            alt={`Coverage over time, in a lane for each type of event: ${proven}, ${gaps.length} gaps.`}
          />
        </a>
      )}
    </>
  );
}

function Gaps({ gaps, watermark }: Pick<CoverageReport, 'gaps' | 'watermark'>) {
  const isOpen = ({ state }: GapRow) => state === 'open';
  const ordered = [...gaps.filter(isOpen), ...gaps.filter((gap) => !isOpen(gap))];
  return (
    <>
      <h3>Gaps</h3>
      {gaps.length === 0 ? (
        <p class="faint">
          {watermark === null
            ? 'Unknown before the first poll.'
            : 'None between the start date and the watermark.'}
        </p>
      ) : (
        <ul class="coverage-gaps">
          {ordered.map((gap) => (
            <Gap key={gap.id} gap={gap} />
          ))}
        </ul>
      )}
    </>
  );
}

function Gap({ gap }: { readonly gap: GapRow }) {
  const [isAsking, setAsking] = useState(false);
  const { types, from, until, openedAt, acknowledged, text } = gap;
  return (
    <li class={acknowledged === null ? 'coverage-gap-open' : undefined}>
      <dl class="coverage-facts">
        <dt>State</dt>
        <dd>
          {acknowledged === null ? (
            <strong class="bad">open</strong>
          ) : (
            <>
              <strong>acknowledged</strong> by <Plain text={acknowledged.by} />, <Time at={acknowledged.at} />
              : <Plain text={acknowledged.reason} />
            </>
          )}
        </dd>
        <dt>Types</dt>
        <dd>
          <Plain text={types.join(', ')} />
        </dd>
        <dt>Created</dt>
        <dd>
          after <Time at={from} />, up to <Time at={until} />
        </dd>
        <dt>Since</dt>
        <dd>
          <Time at={openedAt} />
        </dd>
        <dt>Why</dt>
        <dd>
          <Plain text={text} />
        </dd>
      </dl>
      {acknowledged === null && can('acknowledge-gap') && (
        <button type="button" onClick={() => setAsking(true)}>
          Acknowledge …
        </button>
      )}
      {isAsking && <Acknowledge gap={gap} onClose={() => setAsking(false)} />}
    </li>
  );
}

function Acknowledge({ gap: { id }, onClose }: { readonly gap: GapRow; readonly onClose: () => void }) {
  const [by, setBy] = useState('');
  const [reason, setReason] = useState('');
  async function acknowledge() {
    onClose();
    await attempt(
      async () => {
        const { done } = await act('acknowledge-gap', { id, by, reason });
        if (!done) {
          throw new Error(
            'The gap was not acknowledged: it is no longer open, or a poll is running. Try again in a moment.',
          );
        }
      },
      () => 'The gap is acknowledged. It stays in the list as a record.',
    );
    tellChanged('coverage');
  }
  return (
    <Dialog title="Acknowledge the gap" submit="Acknowledge" onSubmit={acknowledge} onClose={onClose}>
      <p>
        You accept that events of this span can be missing. Nothing is proven by it; who accepted it and why
        is kept in the inbox, and no poll reports the gap again.
      </p>
      <label>
        Your name
        <input
          required
          maxLength={200}
          pattern=".*\S.*"
          value={by}
          onInput={({ currentTarget }) => setBy(currentTarget.value)}
        />
      </label>
      <label>
        Reason
        <textarea
          required
          maxLength={1_000}
          rows={3}
          value={reason}
          onInput={({ currentTarget }) => setReason(currentTarget.value)}
        />
      </label>
    </Dialog>
  );
}
