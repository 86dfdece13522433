import { useState } from 'preact/hooks';
import type { CoverageReport, GapRow, OverviewReport, Tone } from '../../../src/inspector/api.js';
import { Copy } from '../copy';
import { Dialog } from '../dialog';
import { staleFor, tellChanged } from '../live';
import { useEvery, useLoaded } from '../load';
import { LoadError } from '../load-error';
import { attempt } from '../notice';
import { Plain, Sentence } from '../plain';
import { act, ask, can } from '../server';
import { keepName, newStatement, StatementFields } from '../statement';
import { Age, now, Time } from '../time';
import { Mark } from '../tone';
import { follow, hrefOf } from '../url';
import './coverage.css';

const REFRESH_MS = 30_000;

export function CoverageView() {
  const { data, error, reload } = useLoaded(
    'coverage',
    (signal) => ask<CoverageReport>('coverage', {}, signal),
    staleFor('coverage'),
  );
  /** The page repeats the server's verdict, and does not decide by itself whether a proof is good. */
  const judged = useLoaded(
    'judged coverage',
    (signal) => ask<OverviewReport>('overview', { fresh: '1' }, signal),
    staleFor('coverage'),
  );
  useEvery(REFRESH_MS, () => {
    reload();
    judged.reload();
  });
  const tones = judged.data?.checks.flatMap(({ name, tone }) => (JUDGES.includes(name) ? tone : []));
  return (
    <div class="coverage">
      <h2 class="unseen">Coverage</h2>
      <LoadError what="The coverage could not be read: " error={error} reload={reload} />
      {data === undefined && error === undefined && <p class="faint">Loading …</p>}
      {data !== undefined && (
        <>
          {/* The checks are sorted by urgency. */}
          <Proven report={data} tone={tones?.[0] ?? 'neutral'} />
          <Lanes report={data} />
          <Gaps report={data} />
        </>
      )}
    </div>
  );
}

const isOpen = ({ state }: GapRow) => state === 'open';

const JUDGES: readonly string[] = ['coverage', 'gaps', 'poll'];

function Proven({
  report: { since, watermark, gaps, lastPoll },
  tone,
}: {
  readonly report: CoverageReport;
  readonly tone: Tone;
}) {
  const open = gaps.filter(isOpen).length;
  const acknowledged = gaps.length - open;
  // The first poll only records the start date.
  const isProven = watermark !== null && watermark !== since;
  return (
    <div class={`verdict verdict-${tone}`}>
      <p role="status">
        <Mark tone={tone} />{' '}
        {!isProven ? (
          `Nothing is proven yet: ${watermark === null ? "no poll has read the service's event list" : 'the poller has not been reading the event list for lagMs yet'}.`
        ) : (
          <>
            Proven up to <Time at={watermark} full />
            {open > 0 && `, except in ${open.toLocaleString('en')} open ${open === 1 ? 'gap' : 'gaps'}`}.
          </>
        )}
      </p>
      {isProven && (
        <p class="faint">
          That was <Age since={watermark} /> ago. Nothing after that time is proven.
          {acknowledged > 0 &&
            ` ${acknowledged.toLocaleString('en')} ${acknowledged === 1 ? 'gap is' : 'gaps are'} acknowledged but not proven.`}
        </p>
      )}
      {lastPoll !== null && (
        <div class="faint">
          Last poll <Time at={lastPoll.at} />: <Sentence text={lastPoll.diagnosis} />
          {lastPoll.problems.length > 0 && (
            <ul aria-label="Problems of the last poll">
              {lastPoll.problems.map((problem, index) => (
                <li key={index} class="bad">
                  <Sentence text={problem} />
                </li>
              ))}
            </ul>
          )}
        </div>
      )}
    </div>
  );
}

/** In pixels. People must be able to see and click even a short gap. */
const MIN_GAP_PX = 12;

/** A lane shows this much of the past, in ms, or more if an open gap is older. */
const RECENT_MS = 7 * 86_400_000;

export function Lanes({
  report,
  isOne = false,
}: {
  readonly report: CoverageReport;
  readonly isOne?: boolean;
}) {
  const { since, watermark, types } = report;
  if (since === null || watermark === null) return null;
  const recent = isOne ? Math.max(since, now.value - RECENT_MS) : since;
  const starts = report.gaps.filter((gap) => !isOne || isOpen(gap)).map(({ from }) => Date.parse(from));
  const start = Math.min(recent, ...starts);
  const gaps = report.gaps.filter(({ until }) => Date.parse(until) > start);
  const end = Math.max(now.value, watermark);
  const share = (time: number) => (100 * (time - start)) / Math.max(1, end - start);
  const place = (from: number, until: number, minPx = 0) => ({
    left: `min(${share(from)}%, 100% - ${minPx}px)`,
    width: `max(${share(until) - share(from)}%, ${minPx}px)`,
  });
  return (
    <figure class={isOne ? 'lanes lanes-one' : 'lanes'}>
      {(isOne ? ['all types'] : types).map((type) => (
        <div class="lane" key={type}>
          {!isOne && <span class="lane-type">{type}</span>}
          <div class="lane-line">
            <div class="lane-proven" style={place(Math.max(start, since), watermark)} />
            {gaps.map((gap, index) =>
              isOne || gap.types.some((each) => each === type) ? (
                <a
                  key={gap.id}
                  href={isOne ? hrefOf({ view: 'coverage' }) : `#gap-${index}`}
                  class={isOpen(gap) ? 'lane-gap' : `lane-gap lane-gap-${gap.state}`}
                  title={`${gap.state} gap: ${gap.from} to ${gap.until}`}
                  aria-label={`${type}: ${gap.state} gap ${index + 1}`}
                  style={place(Math.max(start, Date.parse(gap.from)), Date.parse(gap.until), MIN_GAP_PX)}
                  onClick={(event) => {
                    if (isOne) return follow(event);
                    event.preventDefault();
                    const card = document.querySelector<HTMLElement>(`#gap-${index}`);
                    card?.scrollIntoView({ block: 'center' });
                    card?.focus({ preventScroll: true });
                  }}
                >
                  <span class="unseen">Gap {index + 1}</span>
                </a>
              ) : null,
            )}
          </div>
        </div>
      ))}
      <div class="lane lane-axis">
        {!isOne && <span />}
        <div>
          <Time at={start} />
          <Time at={(start + end) / 2} />
          <span>now</span>
        </div>
      </div>
      {!isOne && (
        <figcaption class="legend faint">
          <span class="key key-proven">proven</span>
          <span class="key key-gap">open gap</span>
          <span class="key key-acknowledged">acknowledged</span>
          <span class="key key-unconfirmed">unconfirmed</span>
          <span class="key key-none">not proven yet</span>
        </figcaption>
      )}
    </figure>
  );
}

function Gaps({ report: { gaps, watermark } }: { readonly report: CoverageReport }) {
  const order = gaps.map((gap, index) => ({ gap, index }));
  const ordered = [...order.filter(({ gap }) => isOpen(gap)), ...order.filter(({ gap }) => !isOpen(gap))];
  return (
    <section aria-label="Gaps">
      <h3>Gaps {watermark !== null && <span class="faint">{gaps.length}</span>}</h3>
      {gaps.length === 0 ? (
        <p class="faint">
          {watermark === null
            ? 'Gaps are unknown until the first poll. Start a poller (createPoller) with this inbox.'
            : 'There are no gaps between the start date and the watermark.'}
        </p>
      ) : (
        <ul class="gaps">
          {ordered.map(({ gap, index }) => (
            <Gap key={gap.id} gap={gap} index={index} />
          ))}
        </ul>
      )}
    </section>
  );
}

function Gap({ gap, index }: { readonly gap: GapRow; readonly index: number }) {
  /** A poll can make the gap longer while the dialog is open. */
  const [asked, setAsked] = useState<GapRow | null>(null);
  const { types, from, until, openedAt, text, command, state } = gap;
  return (
    <li id={`gap-${index}`} tabIndex={-1} class={isOpen(gap) ? 'gap gap-open' : 'gap'}>
      <h4>
        Gap {index + 1}: <Time at={from} full /> to <Time at={until} full />
        <span class={isOpen(gap) ? 'badge bad' : 'badge'}>{state}</span>
      </h4>
      <p class="faint">
        <Plain text={types.join(', ')} />, found at <Time at={openedAt} />
      </p>
      <p>
        <Sentence text={text} />
      </p>
      {isOpen(gap) && (
        <>
          <p>Reconcile this span with your ledger, then acknowledge the gap:</p>
          <div class="command">
            {/* A line ends between two words only: a date would break at its hyphens. */}
            <code>
              {command.split(' ').flatMap((word, index) => [
                index > 0 && ' ',
                <span key={index}>
                  <Plain text={word} />
                </span>,
              ])}
            </code>
            <Copy title="Copy" what="The command" text={() => `${command}\n`} />
          </div>
          {can('acknowledge-gap') && (
            <button type="button" onClick={() => setAsked(gap)}>
              Acknowledge gap {index + 1} …
            </button>
          )}
        </>
      )}
      {asked !== null && <Acknowledge gap={asked} index={index} onClose={() => setAsked(null)} />}
    </li>
  );
}

function Acknowledge({
  gap: { id, from, until, types },
  index,
  onClose,
}: {
  readonly gap: GapRow;
  readonly index: number;
  readonly onClose: () => void;
}) {
  const [statement, setStatement] = useState(newStatement);
  async function acknowledge() {
    onClose();
    keepName(statement);
    await attempt(
      async () => {
        const { done } = await act('acknowledge-gap', { id, until, ...statement });
        if (!done) {
          throw new Error(
            'The gap was not acknowledged: another process closed it, or a poll is running. Try again in a moment.',
          );
        }
      },
      () => `Gap ${index + 1} is acknowledged. It stays in the list as a record.`,
    );
    tellChanged('coverage');
  }
  return (
    <Dialog
      title={`Acknowledge gap ${index + 1}`}
      submit={`Acknowledge gap ${index + 1}`}
      onSubmit={acknowledge}
      onClose={onClose}
    >
      <p>
        <Plain text={types.join(', ')} />, <Time at={from} full /> to <Time at={until} full />.
      </p>
      <p>
        You accept that events in this span may be missing. This proves nothing. The inbox records your name
        and reason, and no poll will report the gap again.
      </p>
      <StatementFields value={statement} onChange={setStatement} />
    </Dialog>
  );
}
