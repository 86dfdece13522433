import type { InboxFilter, InboxRecord, InboxState } from 'stablehooks';
import { givenOf } from '../given.js';
import { type Runnable, returnToDead } from '../io/run-by-hand.js';
import type { ActionInputs, Selected, SelectedResult } from './api.js';
import { isRunning, search, toExactFilter } from './inbox-events.js';
import type { InboxPart, InspectedInbox } from './source.js';

/** The maximum number of events that an action requeues or discards, or that a search by text finds. */
const MAX_CHANGED = 10_000;
/** The maximum number of events that a search by text reads. */
const MAX_READ = 100_000;
/** A person is waiting while the events run. */
const MAX_RUN = 100;

const ELIGIBLE = {
  requeue: ['failed', 'dead'],
  discard: ['received', 'failed', 'dead', 'parked'],
  run: ['dead', 'failed', 'received', 'parked', 'leased'],
} as const satisfies Readonly<Record<string, readonly InboxState[]>>;

export class TooMany extends Error {}

export async function applyToSelected(
  { operations, run }: InboxPart,
  ...[name, input]: { [Name in 'requeue' | 'run' | 'discard']: readonly [Name, ActionInputs[Name]] }[
    | 'requeue'
    | 'run'
    | 'discard']
): Promise<SelectedResult> {
  const filter = await toFilter(operations, input.filter);
  const counts = await operations.count(filter);
  const states: readonly InboxState[] = ELIGIBLE[name];
  const plan = {
    matched: counts.reduce((sum, { count }) => sum + count, 0),
    eligible: counts.reduce((sum, { state, count }) => sum + (states.includes(state) ? count : 0), 0),
    ...{ changed: 0, outcomes: {}, ids: [] },
  };
  if (input.dryRun === true) {
    const limit = name === 'run' ? MAX_RUN : MAX_CHANGED;
    const records = await readEligible(operations, { filter, states, limit });
    return { ...plan, ids: records.map(({ id }) => id) };
  }
  if (plan.eligible === 0) return plan;
  if (name === 'requeue') {
    const statement = givenOf({ by: input.by, reason: input.reason });
    return { ...plan, changed: await operations.requeue({ ...filter, ...statement, limit: MAX_CHANGED }) };
  }
  if (name === 'discard') {
    const { by, reason } = input;
    return { ...plan, changed: await operations.discard({ ...filter, by, reason, limit: MAX_CHANGED }) };
  }
  const records = await readEligible(operations, { filter, states, limit: MAX_RUN });
  return { ...plan, ...(await runAll(records, { operations, run })) };
}

async function toFilter(inbox: InspectedInbox, filter: Selected['filter']): Promise<InboxFilter> {
  const exact = await toExactFilter(inbox, filter);
  if (exact !== undefined) return exact;
  const ids: string[] = [];
  let read = 0;
  for await (const { record, isFound } of search(inbox, filter)) {
    if (isFound) ids.push(record.id);
    read += 1;
    if (read === MAX_READ || ids.length === MAX_CHANGED) {
      throw new TooMany(
        'Nothing was changed, because too many events would have to be read. Narrow the filter by time first.',
      );
    }
  }
  return { ids };
}

async function readEligible(
  inbox: InspectedInbox,
  {
    filter,
    states,
    limit,
  }: { readonly filter: InboxFilter; readonly states: readonly InboxState[]; readonly limit: number },
): Promise<readonly InboxRecord[]> {
  const records: InboxRecord[] = [];
  for (const state of states) {
    if (filter.state !== undefined && filter.state !== state) continue;
    if (records.length === limit) break;
    records.push(...(await inbox.list({ ...filter, state, limit: limit - records.length })));
  }
  return records;
}

/** A failed event does not wait for its retry time, and a dead event also runs. */
async function runAll(
  records: readonly InboxRecord[],
  { operations, run }: Pick<InboxPart, 'operations' | 'run'>,
): Promise<Pick<SelectedResult, 'changed' | 'outcomes'>> {
  const outcomes: Record<string, number> = {};
  let changed = 0;
  for (const record of records) {
    const { id, state, event } = record;
    // An expired lease means that no process is running the event.
    if (run === undefined || event === null || isRunning(record)) continue;
    if (state === 'dead' || state === 'failed') await operations.requeue(id);
    const said = await run(event).catch((error) => {
      console.error(error);
      return THREW;
    });
    const after = (await operations.find(id))?.state;
    // If a handler had run in the app that uses this inbox, the event would be done here.
    const outcome = (said === 'handled' || said === 'duplicate') && after !== 'done' ? ELSEWHERE : said;
    if (state === 'dead' || (state === 'failed' && outcome === ELSEWHERE))
      await keepDead(operations, { ...record, event }, outcome);
    outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
    changed += 1;
    if (outcome === ELSEWHERE) break;
  }
  return { changed, outcomes };
}

const THREW = 'error';
/** The event ran in a receiver that uses a different inbox, so no further event runs. */
export const ELSEWHERE = 'elsewhere';

const NOT_HERE = 'the event ran in a receiver that does not use this inbox';

/** A dead event that fails again stays dead with its first cause, even if the app would otherwise retry the event. */
async function keepDead(operations: InspectedInbox, record: Runnable, outcome: string): Promise<void> {
  const { state, lastError } = (await operations.find(record.id)) ?? {};
  if (state === 'failed') await returnToDead(operations, record, lastError ?? 'the run failed');
  const why = {
    [THREW]: 'the run threw an error, which is in the log of the inspector',
    [ELSEWHERE]: NOT_HERE,
  }[outcome];
  if (state === 'received' && why !== undefined) await returnToDead(operations, record, why);
}
