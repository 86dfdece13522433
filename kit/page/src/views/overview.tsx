import type {
  CoverageReport,
  EventState,
  OverviewCheck,
  OverviewReport,
  Tone,
  View,
} from '../../../src/inspector/api.js';
import { Copy } from '../copy';
import { useEvery, useLoaded } from '../load';
import { LoadError } from '../load-error';
import { Plain, Sentence } from '../plain';
import { ask, session } from '../server';
import { Age, Time } from '../time';
import { Mark } from '../tone';
import { follow, hrefOf } from '../url';
import { Lanes } from './coverage';
import { RequeueThese } from './event-actions';
import './overview.css';

/** Some checks depend on the time, so they must be read again. */
const REFRESH_MS = 10_000;

const ACTIONS: Readonly<Record<string, readonly [label: string, target: Readonly<Record<string, string>>]>> =
  {
    coverage: ['See coverage', { view: 'coverage' }],
    gaps: ['See the gaps', { view: 'coverage' }],
    due: ['Review due events', { view: 'events', state: 'received' }],
    leases: ['Review leased events', { view: 'events', state: 'leased' }],
    dead: ['Review dead events', { view: 'events', state: 'dead' }],
    failing: ['Review failed events', { view: 'events', state: 'failed' }],
    ignored: ['Review parked events', { view: 'events', state: 'parked' }],
    poll: ['See coverage', { view: 'coverage' }],
    failed: ['Review failed events', { view: 'events', state: 'failed' }],
    'wrongly-accepted': ['Review', { view: 'events', state: 'wrongly-accepted' }],
    unanswered: ['Review unanswered events', { view: 'events', state: 'unanswered' }],
    'without-effect': ['Review', { view: 'events', state: 'without-effect' }],
    faults: ['See the faults', { view: 'sandbox' }],
  };
/** An inbox keeps only the number of refused deliveries, so it cannot list them. */
const REFUSED = ['Review refused events', { view: 'events', state: 'refused' }] as const;

const isLive = ({ kind }: { readonly kind: string }) => kind !== 'lost';
const has = (view: View) => session.value?.views.includes(view) === true;

export function OverviewView() {
  const { data, error, reload } = useLoaded(
    'overview',
    (signal) => ask<OverviewReport>('overview', {}, signal),
    isLive,
    2_000,
  );
  useEvery(REFRESH_MS, reload);
  return (
    <div class="overview">
      <h2 class="unseen">Overview</h2>
      <LoadError error={error} reload={reload} />
      {data === undefined && error === undefined && <p class="faint">Loading …</p>}
      {data !== undefined && (
        <>
          <div class={`verdict verdict-${data.tone}`}>
            <p role="status">
              <Mark tone={data.tone} /> <Sentence text={data.verdict} />
            </p>
            <p class="faint">
              Checked at <Time at={data.at} />
            </p>
          </div>
          <Needs checks={data.checks.filter(needsReader)} />
          <div class="overview-now">
            <Flow flow={data.flow} />
            {has('coverage') && <Proven />}
          </div>
          {data.errors !== null && data.errors.groups.length > 0 && <Errors {...data.errors} />}
          <AllChecks checks={data.checks} />
        </>
      )}
    </div>
  );
}

const needsReader = ({ tone }: OverviewCheck) => tone === 'bad' || tone === 'doubtful';

function Needs({ checks }: { readonly checks: readonly OverviewCheck[] }) {
  if (checks.length === 0) return null;
  return (
    <section aria-label="What needs you">
      <ul class="cards">
        {checks.map((check) => (
          <Card key={check.name} check={check} />
        ))}
      </ul>
    </section>
  );
}

function Card({ check: { name, tone, message, count, since, causes } }: { readonly check: OverviewCheck }) {
  const [label, target] = (name === 'refused' && !has('coverage') ? REFUSED : ACTIONS[name]) ?? [];
  return (
    <li class={`card card-${tone}`}>
      <h3>
        <Mark tone={tone} /> <span class="card-name">{name.replaceAll('-', ' ')}</span>
        {since !== null && (
          <span class="faint" title={new Date(since).toISOString()}>
            for <Age since={since} />
          </span>
        )}
      </h3>
      {count !== null && count > 0 && <strong>{count.toLocaleString('en')}</strong>}
      <div class="card-cause">
        {causes.length === 0 ? (
          <Sentence text={message} />
        ) : (
          causes.map((cause) => (
            <p key={cause} class="mono">
              <Plain text={cause} />
            </p>
          ))
        )}
      </div>
      {target !== undefined && has(target['view'] as View) && (
        <a class="button" href={hrefOf(target)} onClick={follow}>
          {label}
        </a>
      )}
      {name === 'refused' && target === undefined && (
        <Copy
          title="Copy the test"
          what="The command"
          text={() => 'stablehooks doctor URL_OF_THE_ENDPOINT'}
        />
      )}
    </li>
  );
}

function Flow({ flow }: Pick<OverviewReport, 'flow'>) {
  return (
    <section aria-label="Last hour" class="panel">
      <h3>Last hour</h3>
      <dl class="flow">
        {flow.map(({ name, count, tone, note }) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>
              <strong class={tone === 'neutral' ? undefined : tone}>{count.toLocaleString('en')}</strong>
              {note !== null && (
                <span class="faint">
                  <Sentence text={note} />
                </span>
              )}
            </dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

function Proven() {
  const { data } = useLoaded(
    'coverage',
    (signal) => ask<CoverageReport>('coverage', {}, signal),
    isLive,
    2_000,
  );
  const { since = null, watermark = null } = data ?? {};
  const isProven = watermark !== null && watermark !== since;
  return (
    <section aria-label="Proven" class="panel">
      <h3>
        {data === undefined ? (
          'Proven'
        ) : isProven ? (
          <>
            Proven until <Time at={watermark} />{' '}
            <span class="faint">
              <Age since={watermark} /> behind
            </span>
          </>
        ) : (
          'Nothing is proven yet'
        )}
        <a href={hrefOf({ view: 'coverage' })} onClick={follow}>
          See coverage
        </a>
      </h3>
      {data !== undefined && isProven && <Lanes report={data} isOne />}
      {data !== undefined && !isProven && (
        <p class="faint">To prove that no event is missing, start a poller (createPoller) with this inbox.</p>
      )}
    </section>
  );
}

const MAX_GROUPS = 20;

function Errors({ groups, isCut }: NonNullable<OverviewReport['errors']>) {
  return (
    <section aria-label="Errors" class="panel">
      <h3>Errors</h3>
      <table class="errors">
        <thead>
          <tr>
            {['Error', 'Events', 'First', 'Last', ''].map((title) => (
              <th key={title} scope="col">
                {title || <span class="unseen">Actions</span>}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {groups.slice(0, MAX_GROUPS).map(({ state, error, count, first, last, types }) => (
            <tr key={`${state} ${error}`}>
              <td>
                <span class="mono">
                  <Plain text={error} />
                </span>
                <div class="faint">
                  <span class={state === 'dead' ? 'bad' : 'doubtful'}>{state}</span>{' '}
                  {types.map((type) => (
                    <a
                      key={type}
                      href={hrefOf({ view: 'events', state, group: error, type })}
                      onClick={follow}
                    >
                      <Plain text={type} />
                    </a>
                  ))}
                </div>
              </td>
              <td>{count.toLocaleString('en')}</td>
              <td>
                <Time at={first} />
              </td>
              <td>
                <Time at={last} />
              </td>
              <td class="errors-acts">
                <a class="button" href={hrefOf({ view: 'events', state, group: error })} onClick={follow}>
                  Show
                </a>
                <RequeueThese filter={{ state: state as EventState, group: error }} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {isCut && <p class="faint">Older events were not read, so the counts are too low.</p>}
    </section>
  );
}

const COUNTED: readonly (readonly [Tone, string])[] = [
  ['bad', 'failing'],
  ['doubtful', 'to look at'],
  ['neutral', 'not shown'],
  ['good', 'good'],
];

function AllChecks({ checks }: Pick<OverviewReport, 'checks'>) {
  const counts = COUNTED.flatMap(([tone, words]) => {
    const count = checks.filter((check) => check.tone === tone).length;
    return count === 0 ? [] : `${count} ${words}`;
  });
  if (checks.length === 0) return null;
  return (
    <details class="panel">
      <summary>
        All checks <span class="faint">{counts.join(', ')}</span>
      </summary>
      <ul class="checks" aria-label="Checks">
        {checks.map(({ name, tone, message, count }) => (
          <li key={name}>
            <Mark tone={tone} />
            <span>
              {name.replaceAll('-', ' ')}
              {count !== null && count > 0 && <strong> {count.toLocaleString('en')}</strong>}
            </span>
            <span class="wrap">
              <Sentence text={message} />
            </span>
          </li>
        ))}
      </ul>
    </details>
  );
}
