/** The options of the operations, which operators type: the same rules in every inbox, before anything is read or changed. */
import { ConfigError } from '../core/errors.js';
import { isName } from '../core/events.js';
import { integer, oneOf, readOptions, required, rule, string } from '../core/options.js';
import { INBOX_STATES, type InboxFilter, type InboxOperations, type InboxState } from '../core/ports.js';

type OptionsOf<Name extends 'list' | 'requeue' | 'discard' | 'prune'> = Parameters<InboxOperations[Name]>[0];

/** A filter that was checked, with the states that it can find. */
export interface Selection extends Omit<InboxFilter, 'state'> {
  readonly states: readonly InboxState[];
}

const TIME = integer({ min: 0, max: Number.MAX_SAFE_INTEGER });
const IDS = rule('an array of ids', (value) => Array.isArray(value) && value.every(isName));
const FILTER = {
  ids: IDS,
  state: oneOf(INBOX_STATES),
  type: rule('a string', (value) => typeof value === 'string'),
  key: string(),
  receivedSince: TIME,
  receivedUntil: TIME,
  updatedSince: TIME,
  updatedUntil: TIME,
  error: string(),
  damaged: rule('true', (value) => value === true),
} as const;
const LIMIT = integer({ default: 1_000, max: 10_000 });
const TEXT = required(string());

const REQUEUEABLE: readonly InboxState[] = ['failed', 'dead'];
const DISCARDABLE: readonly InboxState[] = ['received', 'failed', 'dead', 'parked'];

/** @param from - the states that the operation reads or changes. */
function toSelection({ state, ...filter }: InboxFilter, from: readonly InboxState[]): Selection {
  return { ...filter, states: from.filter((each) => state === undefined || each === state) };
}

export function readListOptions(options: OptionsOf<'list'>) {
  const { limit, after, order, ...filter } = readOptions('inbox.list', options, {
    ...FILTER,
    limit: required(integer()),
    after: string(),
    order: oneOf(['oldest', 'newest'], 'oldest'),
  });
  return { selection: toSelection(filter, INBOX_STATES), limit, after, order };
}

/** The error of a list that is to continue after an event of which the inbox knows no place. */
export function unknownAfter(id: string): ConfigError {
  return new ConfigError(
    `inbox.list: \`after\` is ${JSON.stringify(id)}, and the inbox does not have that event, or not any more. Start again without \`after\`.`,
  );
}

export function readCountOptions(filter: InboxFilter): Selection {
  return toSelection(readOptions('inbox.count', filter, FILTER), INBOX_STATES);
}

export function readRequeueOptions(which: OptionsOf<'requeue'>) {
  const options = typeof which === 'string' ? { ids: [which] } : which;
  const { limit, ...filter } = readOptions('inbox.requeue', options, { ...FILTER, limit: LIMIT });
  return { selection: toSelection(filter, REQUEUEABLE), limit };
}

export function readDiscardOptions(options: OptionsOf<'discard'>) {
  const rules = { ...FILTER, by: TEXT, reason: TEXT, limit: LIMIT };
  const { by, reason, limit, ...filter } = readOptions('inbox.discard', options, rules);
  // A variable that is `undefined` by mistake must not discard every event.
  if (Object.values(filter).every((value) => value === undefined)) {
    throw new ConfigError(
      'inbox.discard: no condition is given. Name the events, such as by `ids` or `state`.',
    );
  }
  const who = { by: by.slice(0, 1_000), reason: reason.slice(0, 1_000) };
  return { selection: toSelection(filter, DISCARDABLE), limit, ...who };
}

/** How many ids one step imports: other steps wait for it. */
const IMPORT_BATCH = 1_000;

/** The ids in pages, each id once. */
export function readImportedIds(ids: readonly string[]): readonly (readonly string[])[] {
  readOptions('inbox.importDone', { ids }, { ids: required(IDS) });
  const unique = [...new Set(ids)];
  const pages = Math.ceil(unique.length / IMPORT_BATCH);
  return Array.from({ length: pages }, (_, page) =>
    unique.slice(page * IMPORT_BATCH, (page + 1) * IMPORT_BATCH),
  );
}

export function readPruneOptions(options: OptionsOf<'prune'>) {
  return readOptions('inbox.prune', options, {
    // Longer than a timer takes: 30 days are.
    olderThanMs: required(integer({ min: 0, max: Number.MAX_SAFE_INTEGER })),
  });
}
