import type { EventState, OverviewCheck, OverviewReport, View } from '../../../src/inspector/api.js';
import { useEvery, useLoaded } from '../load';
import { LoadError } from '../load-error';
import { Plain, Sentence } from '../plain';
import { ask, session } from '../server';
import { Age, Time } from '../time';
import { Mark } from '../tone';
import { follow, hrefOf } from '../url';
import { RequeueThese } from './event-actions';
import './overview.css';

/** How often a check that depends on time is read again. */
const REFRESH_MS = 10_000;

/** The next step for each check. */
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
    refused: ['Review refused events', { view: 'events', state: 'refused' }],
    unanswered: ['Review unanswered events', { view: 'events', state: 'unanswered' }],
    'without-effect': ['Review', { view: 'events', state: 'without-effect' }],
    faults: ['See the faults', { view: 'sandbox' }],
  };

const isLive = ({ kind }: { readonly kind: string }) => kind !== 'lost';

/** Whether all is well, and what to do if not. */
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
          <ul class="states" aria-label="Events by state">
            {data.states.map(({ state, count, oldest }) => (
              <li key={state}>
                <a class="state" href={hrefOf({ view: 'events', state })} onClick={follow}>
                  <span class="faint">{state.replaceAll('-', ' ')}</span>
                  <strong>{count.toLocaleString('en')}</strong>
                  <small class="faint">
                    {oldest !== null && count > 0 && state !== 'done' ? (
                      <>
                        oldest <Age since={oldest} />
                      </>
                    ) : (
                      '\u00a0'
                    )}
                  </small>
                </a>
              </li>
            ))}
          </ul>
          <ul class="checks" aria-label="Checks">
            {data.checks.map((check) => (
              <Check key={check.name} check={check} />
            ))}
          </ul>
          {data.errors !== null && data.errors.groups.length > 0 && <Errors {...data.errors} />}
        </>
      )}
    </div>
  );
}

/** How many groups are shown. Rarer groups are left out. */
const MAX_GROUPS = 20;

function Errors({ groups, isCut }: NonNullable<OverviewReport['errors']>) {
  return (
    <section aria-label="Errors">
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
          {groups.slice(0, MAX_GROUPS).map(({ state, error, part, count, first, last, types }) => (
            <tr key={`${state} ${error}`}>
              <td>
                <Plain text={error} />
                <div class="faint">
                  {state}: <Plain text={types.join(', ')} />
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
                <a class="button" href={hrefOf({ view: 'events', state, error: part })} onClick={follow}>
                  Show
                </a>
                <RequeueThese filter={{ state: state as EventState, error: part }} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {isCut && <p class="faint">Older events were not read, so counts are too small.</p>}
    </section>
  );
}

function Check({ check: { name, tone, message, count } }: { readonly check: OverviewCheck }) {
  const [label, target] = ACTIONS[name] ?? [];
  const canGo = target !== undefined && session.value?.views.includes(target['view'] as View) === true;
  const isWanted = canGo && (tone === 'bad' || tone === 'doubtful');
  return (
    <li class={`check check-${tone}`}>
      <Mark tone={tone} />
      <span class="check-name">
        {name.replaceAll('-', ' ')}
        {count !== null && count > 0 && <strong> {count.toLocaleString('en')}</strong>}
      </span>
      <span class="check-message">
        <Sentence text={message} />
      </span>
      {isWanted && (
        <a class="button" href={hrefOf(target)} onClick={follow}>
          {label}
        </a>
      )}
    </li>
  );
}
