import { useEffect, useState } from 'preact/hooks';
import type { EventCounts, Selected, SelectedResult } from '../../../src/inspector/api.js';
import { Dialog } from '../dialog';
import { tellChanged } from '../live';
import { attempt } from '../notice';
import { Plain } from '../plain';
import { act, can } from '../server';
import { keepName, newStatement, StatementFields } from '../statement';
import { param } from '../url';
import { readFilter } from './filter';

type Name = 'requeue' | 'run' | 'discard';

interface Action {
  readonly verb: string;
  readonly states: readonly string[];
  readonly max: number;
  readonly effect: string;
}

const ACTIONS: Readonly<Record<Name, Action>> = {
  requeue: {
    ...{ verb: 'Requeue', states: ['dead', 'failed'], max: 10_000 },
    effect:
      'The events become due now, their attempts are counted from 0 again, and their handlers run again.',
  },
  run: {
    ...{ verb: 'Run now', states: ['dead', 'failed', 'received', 'parked', 'leased'], max: 100 },
    effect:
      'The handlers of the events run now in this process, one event after another. Dead and failed events are requeued first.',
  },
  discard: {
    ...{ verb: 'Discard', states: ['received', 'failed', 'dead', 'parked'], max: 10_000 },
    effect:
      'The events are marked done without running, and later deliveries of them are duplicates. You cannot undo this.',
  },
};

const NAMED = 5;

const OR = new Intl.ListFormat('en', { type: 'disjunction' });
const plural = (count: number) => `${count.toLocaleString('en')} event${count === 1 ? '' : 's'}`;

/** If no event is selected, the actions apply to all events that meet the filter. */
export function EventActions({
  states: known,
  selected,
  onDone,
}: {
  readonly states: EventCounts['states'];
  readonly selected: ReadonlySet<string>;
  readonly onDone: () => void;
}) {
  const [asked, setAsked] = useState<{ readonly name: Name; readonly filter: Selected['filter'] }>();
  const state = param('state');
  const countOf = (states: readonly string[]) =>
    selected.size > 0
      ? selected.size
      : known
          ?.filter((each) => states.includes(each.state) && (state === undefined || each.state === state))
          .reduce((sum, { count }) => sum + count, 0);
  const names = (Object.keys(ACTIONS) as Name[]).filter(can);
  return (
    <fieldset class="acts" aria-label={selected.size > 0 ? 'Selected events' : 'All matching events'}>
      <span class="faint">{selected.size > 0 ? `${selected.size} selected:` : 'All matching events:'}</span>
      {names.map((name) => {
        const { verb, states } = ACTIONS[name];
        const count = countOf(states);
        return (
          <button
            type="button"
            key={name}
            disabled={count === 0}
            title={count === 0 ? `No matching event is ${OR.format(states)}.` : undefined}
            onClick={() =>
              setAsked({ name, filter: selected.size > 0 ? { ids: [...selected] } : readFilter() })
            }
          >
            {verb} {count === undefined ? '' : count.toLocaleString('en')} …
          </button>
        );
      })}
      {asked !== undefined && <Confirm {...asked} onClose={() => setAsked(undefined)} onDone={onDone} />}
    </fieldset>
  );
}

export function OneEventActions({
  id,
  state,
  onDone,
}: {
  readonly id: string;
  readonly state: string;
  readonly onDone: () => void;
}) {
  const [asked, setAsked] = useState<Name>();
  const names = (Object.keys(ACTIONS) as Name[]).filter(
    (name) => can(name) && ACTIONS[name].states.includes(state),
  );
  return (
    <>
      {names.map((name) => (
        <button type="button" key={name} onClick={() => setAsked(name)}>
          {ACTIONS[name].verb} …
        </button>
      ))}
      {asked !== undefined && (
        <Confirm name={asked} filter={{ ids: [id] }} onClose={() => setAsked(undefined)} onDone={onDone} />
      )}
    </>
  );
}

export function RequeueThese({ filter }: Pick<Selected, 'filter'>) {
  const [isAsked, setAsked] = useState(false);
  if (!can('requeue')) return null;
  return (
    <>
      <button type="button" onClick={() => setAsked(true)}>
        Requeue these …
      </button>
      {isAsked && (
        <Confirm name="requeue" filter={filter} onClose={() => setAsked(false)} onDone={() => undefined} />
      )}
    </>
  );
}

function Confirm({
  name,
  filter,
  onClose,
  onDone,
}: {
  readonly name: Name;
  readonly filter: Selected['filter'];
  readonly onClose: () => void;
  readonly onDone: () => void;
}) {
  const { verb, effect, states, max } = ACTIONS[name];
  const [plan, setPlan] = useState<SelectedResult>();
  const [error, setError] = useState<string>();
  const [statement, setStatement] = useState(newStatement);

  const [isCareful, setCareful] = useState(false);
  const isMany = filter.ids?.length !== 1;

  useEffect(() => {
    let isLast = true;
    const except = isCareful ? (['permanent', 'expired'] as const) : undefined;
    const dry = { filter: { ...filter, except }, dryRun: true, by: 'dry run', reason: 'dry run' };
    act(name, dry).then(
      (found) => isLast && setPlan(found),
      (thrown: Error) => setError(thrown.message),
    );
    return () => {
      isLast = false;
    };
  }, [isCareful]);

  async function submit(): Promise<void> {
    onClose();
    await attempt(
      async () => {
        const of = { ids: plan?.ids ?? [] };
        const [by, reason] = [statement.by.trim(), statement.reason.trim()];
        keepName(statement);
        // A reason is sent only together with a name.
        const said =
          name === 'discard' ? { by, reason } : { by: by || undefined, reason: (by && reason) || undefined };
        const result = await act(name, { filter: of, ...said } as Parameters<typeof act<typeof name>>[1]);
        if (!isSuccess(result)) throw new Error(describe(name, result));
        return result;
      },
      (result) => describe(name, result),
    );
    onDone();
    tellChanged('events');
  }

  const count = plan?.ids.length ?? 0;
  return (
    <Dialog
      title={plan === undefined ? `${verb} events` : `${verb}: ${plural(count)}`}
      submit={plan === undefined ? verb : `${verb} ${plural(count)}`}
      isReady={plan !== undefined && count > 0}
      onSubmit={submit}
      onClose={onClose}
    >
      {error !== undefined && (
        <p class="bad" role="alert">
          <Plain text={error} />
        </p>
      )}
      {plan === undefined && error === undefined && <p class="faint">Dry run: counting the events …</p>}
      {plan !== undefined && (
        <>
          <p>
            Dry run: {plural(plan.matched)} {plan.matched === 1 ? 'matches' : 'match'};{' '}
            {plan.eligible.toLocaleString('en')} of them can be changed, because{' '}
            {plan.eligible === 1 ? 'it is' : 'they are'} {OR.format(states)}.
            {plan.eligible > max && ` At most ${max.toLocaleString('en')} are changed at a time.`}
          </p>
          {plan.ids.length > 0 && (
            <p class="faint mono sample">
              {plan.ids.slice(0, NAMED).map((id) => (
                <span key={id}>
                  <Plain text={id} />
                </span>
              ))}
              {count > NAMED && `and ${(count - NAMED).toLocaleString('en')} more`}
            </p>
          )}
        </>
      )}
      <p>{effect}</p>
      {name === 'requeue' && isMany && (
        <label class="choice">
          <input
            type="checkbox"
            checked={isCareful}
            onChange={({ currentTarget }) => setCareful(currentTarget.checked)}
          />
          Exclude permanent errors, and events whose lease expired during an attempt
        </label>
      )}
      {name !== 'run' && (
        <StatementFields value={statement} isOptional={name === 'requeue'} onChange={setStatement} />
      )}
    </Dialog>
  );
}

const GOOD: ReadonlySet<string> = new Set(['handled', 'queued', 'duplicate']);

function isSuccess({ changed, outcomes }: SelectedResult): boolean {
  return changed > 0 && Object.keys(outcomes).every((outcome) => GOOD.has(outcome));
}

function describe(name: Name, { changed, eligible, outcomes }: SelectedResult): string {
  if (changed === 0) {
    return name === 'requeue'
      ? 'Nothing was changed: the events are now in a different state, or one of their steps recorded no result. For such a step, say what happened with `stablehooks inbox requeue --step`.'
      : 'Nothing was changed: the events are now in a different state.';
  }
  const rest = eligible > changed ? ` ${plural(eligible - changed)} matched but did not change.` : '';
  if (name === 'requeue')
    return `${plural(changed)} requeued: due now, with attempts counted from 0 again.${rest}`;
  if (name === 'discard') return `${plural(changed)} discarded.${rest}`;
  if (outcomes['elsewhere'] !== undefined) {
    return `Stopped after ${plural(changed)}: \`run\` handled the last event with a receiver that does not use this inbox, so this inbox did not change. Pass a \`run\` function that uses the receiver of this inbox.${rest}`;
  }
  const ends = Object.entries(outcomes).map(([outcome, count]) => `${count.toLocaleString('en')} ${outcome}`);
  return `${plural(changed)} ran: ${ends.join(', ')}.${rest}`;
}
