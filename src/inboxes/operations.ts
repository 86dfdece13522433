import type { Awaitable } from '../core/awaitable.js';
import { ConfigError } from '../core/errors.js';
import { isName } from '../core/events.js';
import { boolean, integer, oneOf, readOptions, required, rule, string } from '../core/options.js';
import {
  INBOX_STATES,
  type InboxCount,
  type InboxFilter,
  type InboxOperations,
  type InboxRecord,
  type InboxState,
} from '../core/ports.js';
import { type StepRow, toSteps, toStorable } from './rows.js';
import type { Limited, PageQuery, Selection } from './selection.js';

export interface Person {
  readonly by: string;
  readonly reason: string;
}

/** Each operation is atomic. The caller has already checked the options. */
export interface OperatorOps {
  find(id: string): Awaitable<InboxRecord | undefined>;
  /** Returns no records if the store doesn't have the event `after`. */
  list(query: PageQuery): Awaitable<readonly InboxRecord[]>;
  /** If `selection` is undefined, counts all events. Some drivers return counts as text. */
  count(selection: Selection | undefined): Awaitable<readonly InboxCount[]>;
  /**
   * Starts with the oldest event, skips events that have a step without a result, and returns the number of requeued events.
   */
  requeue(which: Limited, who: Person | undefined): Awaitable<number>;
  discard(which: Limited, who: Person): Awaitable<number>;
  /** Makes the events failed and due, except events that an open transaction has locked. Returns the changed events. */
  endLeases(which: Limited): Awaitable<readonly Pick<InboxRecord, 'id'>[]>;
  importDone(ids: readonly string[]): Awaitable<number>;
  /** Prunes events that have been done for `olderThanMs`, and returns their number. A store can ignore `limit`. */
  prune(olderThanMs: number, limit: number): Awaitable<number>;
  /** If `token` is given, returns no rows if the event doesn't have that lease, and at least one row if it does. */
  steps(id: string, token: string | null): Awaitable<readonly StepRow[]>;
  /** Marks a dead or failed event's steps without a result as done, or forgets them so that they are rerun. */
  stateSteps(id: string, done: readonly string[], again: readonly string[]): Awaitable<unknown>;
}

const TIME = integer({ min: 0, max: Number.MAX_SAFE_INTEGER });
// `Array.from` also copies the holes of an array, which `every` would skip.
const IDS = rule('an array of ids', (value) => Array.isArray(value) && Array.from(value).every(isName));
const FILTER = {
  ids: IDS,
  state: oneOf(INBOX_STATES),
  type: rule('a string', (value) => typeof value === 'string'),
  key: string(),
  receivedSince: TIME,
  receivedUntil: TIME,
  updatedSince: TIME,
  updatedUntil: TIME,
  dueUntil: TIME,
  error: string(),
  ignored: rule<true | undefined>('true', (value) => value === true),
} as const;
const STATEMENTS = rule<Readonly<Record<string, 'done' | 'again'>> | undefined>(
  "an object with 'done' or 'again' for each step",
  (value) => Object.values(Object(value)).every((each) => each === 'done' || each === 'again'),
);
const LIMIT = integer({ default: 1_000, max: 10_000 });
const TEXT = required(string());
const NONE: ReadonlySet<string> = new Set();

const REQUEUEABLE: readonly InboxState[] = ['failed', 'dead'];
const IGNORED: readonly InboxState[] = ['done'];
const DISCARDABLE: readonly InboxState[] = ['received', 'failed', 'dead', 'parked'];

/** How many events one call to the store imports or prunes. Other calls must wait until that call ends. */
const BATCH = 1_000;

/** @param from - the states that the operation reads or changes. */
function toSelection({ state, ...filter }: InboxFilter, from: readonly InboxState[]): Selection {
  const isOne = (each: InboxState) =>
    (state === undefined || each === state) && (filter.ignored === undefined || each === 'done');
  return { ...filter, states: from.filter(isOne) };
}

/** Without this check, a condition that is `undefined` by mistake could make the operation select every event. */
function assertGiven(where: string, filter: unknown): void {
  for (const [name, value] of Object.entries(Object(filter))) {
    if (value !== undefined || !(name in FILTER)) continue;
    throw new ConfigError(`${where}: \`${name}\` is undefined. Omit the condition, or give it a value.`);
  }
}

/** @param held - the tokens of the leases that this process holds. */
export function createOperations(ops: OperatorOps, held: ReadonlySet<string> = NONE): InboxOperations {
  /** Ends the expired leases of the selected events first, or all of their leases if `force` is true. */
  async function change(
    states: readonly InboxState[],
    { force, limit, ...filter }: InboxFilter & { readonly force: boolean; readonly limit: number },
    work: (which: Limited) => Awaitable<number>,
  ): Promise<number> {
    const selection = {
      ...toSelection(filter, ['leased']),
      expired: force ? undefined : true,
      held: [...held],
    } as const;
    const ended = await ops.endLeases({ selection, limit });
    const ids = ended.map(({ id }) => id);
    const count = ids.length > 0 ? await work({ selection: { ids, states }, limit }) : 0;
    return count < limit
      ? count + (await work({ selection: toSelection(filter, states), limit: limit - count }))
      : count;
  }

  return {
    find: async (id) => ops.find(id),

    async list(options) {
      assertGiven('inbox.list', options);
      const { limit, after, order, withEvents, ...filter } = readOptions('inbox.list', options, {
        ...FILTER,
        limit: required(integer()),
        after: string(),
        order: oneOf(['oldest', 'newest'], 'oldest'),
        withEvents: boolean(true),
      });
      const selection = toSelection(filter, INBOX_STATES);
      const records = await ops.list({ selection, limit, after, order, withEvents });
      if (after === undefined || records.length > 0 || (await ops.find(after)) !== undefined) return records;
      throw new ConfigError(
        `inbox.list: \`after\` is ${JSON.stringify(after)}, but the inbox does not contain that event. Start again without \`after\`.`,
      );
    },

    async count(filter) {
      assertGiven('inbox.count', filter);
      const selection = filter && toSelection(readOptions('inbox.count', filter, FILTER), INBOX_STATES);
      const counts = await ops.count(selection);
      return INBOX_STATES.map((state) => {
        const { count = 0, oldest = null } = counts.find((each) => each.state === state) ?? {};
        const isWaiting = oldest !== null && state !== 'done';
        return { state, count: Number(count), oldest: isWaiting ? Number(oldest) : null };
      });
    },

    async requeue(which) {
      const options = typeof which === 'string' ? { ids: [which] } : which;
      assertGiven('inbox.requeue', options);
      const { by, reason, steps, ...filter } = readOptions('inbox.requeue', options, {
        ...FILTER,
        limit: LIMIT,
        steps: STATEMENTS,
        force: boolean(false),
        by: string(),
        reason: string(),
      });
      const who = by === undefined ? undefined : { by: toStorable(by), reason: toStorable(reason ?? '') };
      if (steps !== undefined) {
        const [id, ...others] = filter.ids ?? [];
        if (id === undefined || others.length > 0) {
          throw new ConfigError('inbox.requeue: `steps` requires exactly one id in `ids`.');
        }
        const names = (what: string) => Object.keys(steps).filter((name) => steps[name] === what);
        await ops.stateSteps(id, names('done'), names('again'));
      }
      const states = filter.ignored ? IGNORED : REQUEUEABLE;
      return change(states, filter, ({ selection, limit }) =>
        ops.requeue({ selection: { ...selection, known: true }, limit }, who),
      );
    },

    async discard(options) {
      assertGiven('inbox.discard', options);
      const rules = { ...FILTER, by: TEXT, reason: TEXT, limit: LIMIT, force: boolean(false) };
      const { by, reason, limit, force, ...filter } = readOptions('inbox.discard', options, rules);
      if (Object.values(filter).every((value) => value === undefined)) {
        throw new ConfigError(
          'inbox.discard: no condition was given. Select the events, for example by `ids` or `state`.',
        );
      }
      const who = { by: toStorable(by), reason: toStorable(reason) };
      return change(DISCARDABLE, { ...filter, limit, force }, (which) => ops.discard(which, who));
    },

    async importDone(ids) {
      readOptions('inbox.importDone', { ids }, { ids: required(IDS) });
      const unique = [...new Set(ids)];
      let added = 0;
      for (let at = 0; at < unique.length; at += BATCH) {
        added += await ops.importDone(unique.slice(at, at + BATCH));
      }
      return added;
    },

    async prune(options) {
      const { olderThanMs } = readOptions('inbox.prune', options, { olderThanMs: required(TIME) });
      for (let total = 0; ; ) {
        const pruned = await ops.prune(olderThanMs, BATCH);
        total += pruned;
        if (pruned < BATCH) return total;
      }
    },

    steps: async (id) => toSteps(await ops.steps(id, null)),
  };
}

export function countRecords(
  records: Iterable<Pick<InboxRecord, 'state' | 'updatedAt'>>,
): readonly InboxCount[] {
  const counts = new Map<InboxState, InboxCount>();
  for (const { state, updatedAt } of records) {
    const { count = 0, oldest } = counts.get(state) ?? {};
    counts.set(state, { state, count: count + 1, oldest: Math.min(oldest ?? updatedAt, updatedAt) });
  }
  return [...counts.values()];
}
