/** Code that the inboxes over a database server share. */
import { ConfigError } from '../core/errors.js';
import type { StoredEvent } from '../core/ports.js';
import { type Runtime, type RuntimeOptions, timeLimit } from '../core/runtime.js';
import type { AttemptEnd, ClaimRow, NewEvent, Stored, StoreOps } from './create-inbox.js';
import { type EventRow, type NoteRow, type StepRow, toNote, toRecord } from './rows.js';
import type { Values } from './statements.js';

/** Options that the Postgres and MySQL inboxes share. */
export interface ServerInboxOptions {
  /**
   * Whether handlers receive `ctx.tx`, an open transaction that also marks the event as done. Everything that a
   * handler writes through `ctx.tx` takes effect exactly once.
   *
   * Each running handler holds one connection from the pool. The inbox keeps one connection free for claims and
   * steps, so the pool needs at least one more connection than the number of concurrent handlers.
   *
   * @default false
   */
  readonly transactional?: boolean | undefined;
  /**
   * How many connections the pool has. To run `ctx.step` in transactional handlers, the inbox must know this number,
   * and it must be at least 2.
   *
   * @default the size of the pool for `pg` and `mysql2`; unknown for data layers
   */
  readonly connections?: number | undefined;
  /** Replaces timers and randomness in tests. Times come from the server's clock. @default the platform's */
  readonly runtime?: RuntimeOptions | undefined;
}

/**
 * The operations that have the same values and rows on every server, with the values in the order in which a call
 * passes them.
 */
export const VALUES = {
  claim: ['id', 'type', 'origin', 'leaseMs', 'token', 'json', 'early', 'key', 'createdMs'],
  finish: ['id', 'token', 'key', 'result', 'retryAfterMs', 'error', 'maxAgeMs'],
  find: ['id'],
  /** The token of the lease that the event must have, or `null`. */
  steps: ['id', 'token'],
  saveStep: ['id', 'token', 'name', 'value', 'what'],
  /** The names of the steps that are done, and of those to forget. */
  stateSteps: ['id', 'done', 'again'],
  takeDue: ['limit', 'visibilityTimeoutMs', 'types'],
  importDone: ['ids'],
  prune: ['olderThanMs', 'limit'],
  readNote: ['name'],
  /** The holder that must have leased the note last, or `null`. */
  writeNote: ['name', 'note', 'holder'],
  leaseNote: ['name', 'holder', 'leaseMs'],
} as const;

export interface EndedRow {
  /** `null` if the lease is lost. */
  readonly ended: string | null;
}

export const toEnded = (row: EndedRow | undefined, { result }: AttemptEnd) =>
  row?.ended === 'dead' && result === 'later' ? 'dead' : Boolean(row?.ended);

/** Drivers may read numbers as text. */
interface CountRow {
  readonly count: number | string;
}

export const readCount = (rows: readonly CountRow[]) => Number(rows[0]?.count ?? 0);

/** Resolves to the rows of the operation. Where no row is read, the operation has changed something if there is one. */
type CallOp = <Row>(name: keyof typeof VALUES, values: Values) => Promise<readonly Row[]>;

export function callOps(
  call: CallOp,
  { transactional, connections }: Pick<ServerInboxOptions, 'transactional' | 'connections'> = {},
) {
  return {
    durable: true,
    find: async (id) => (await call<EventRow>('find', { id })).map(toRecord)[0],
    importDone: async (ids) => readCount(await call('importDone', { ids })),
    prune: async (olderThanMs, limit) => readCount(await call('prune', { olderThanMs, limit })),
    async steps(id, token) {
      if (transactional && token !== null) assertFreeConnection(connections);
      return call<StepRow>('steps', { id, token });
    },
    stateSteps: (id, done, again) => call('stateSteps', { id, done, again }),

    async saveStep({ id, token }, name, result) {
      const what = result === undefined ? 'forgets' : result === null ? 'begins' : 'ends';
      return (await call('saveStep', { id, token, name, value: result ?? '', what })).length > 0;
    },

    claim: async (values) => (await call<ClaimRow>('claim', { ...values }))[0] as ClaimRow,

    finish: async ({ id, token, key = null }, end) =>
      toEnded((await call<EndedRow>('finish', { id, token, key, ...end }))[0], end),

    takeDue: (options) => call<StoredEvent>('takeDue', options),

    readNote: async (name) => toNote(await call<NoteRow>('readNote', { name })),

    writeNote: async (name, note, fence) =>
      (await call('writeNote', { name, note, holder: fence?.holder ?? null })).length > 0,

    leaseNote: async (name, lease) => (await call('leaseNote', { name, ...lease })).length > 0,
  } satisfies Partial<StoreOps<unknown>>;
}

/** The version of the tables, or of the Redis keys. It increases when processes of an older release cannot use them. */
export const VERSION = 1;

/** How often a server's version and settings are checked, in ms, because another process may change them. */
const CHECK_MS = 60_000;

/** Returns a function that checks the server before the first operation, and again when the last check is old. */
export function checkedOften(check: () => Promise<void>, { elapsed }: Pick<Runtime, 'elapsed'>) {
  let checkAt = Number.NEGATIVE_INFINITY;
  const checkNow = async () => {
    await check();
    checkAt = elapsed() + CHECK_MS;
  };
  return () => (elapsed() < checkAt ? undefined : checkNow());
}

/** @param migrate - the advice that brings older tables to this version. */
export function assertVersion(inbox: string, found: unknown, migrate: string): void {
  if (Number(found) === VERSION) return;
  const [release, fix] =
    Number(found) > VERSION ? ['a newer', 'Upgrade stablehooks in this process'] : ['an older', migrate];
  throw new ConfigError(
    `${inbox}: ${release} release of stablehooks wrote these tables. They have version ${Number(found)}, but this release supports version ${VERSION}. ${fix}.`,
  );
}

/** How many events a statement stores at most: a server has a table of all locks, which has 6,400 places by default. */
const MAX_EVENTS = 200;

/**
 * How many characters of JSON a statement stores at most: MySQL accepts 16 MB by default, and a text may become four times as
 * long.
 */
const MAX_CHARACTERS = 1_000_000;

/** Stores a page in parts, each of which is atomic. */
export async function storeInParts(
  events: readonly NewEvent[],
  store: (part: readonly NewEvent[]) => Promise<readonly Stored[]>,
): Promise<readonly Stored[]> {
  const stored: Stored[] = [];
  for (let from = 0, to = 0; from < events.length; from = to) {
    let characters = 0;
    do characters += events[to++]?.json.length ?? 0;
    while (
      to < Math.min(events.length, from + MAX_EVENTS) &&
      characters + (events[to]?.json.length ?? 0) <= MAX_CHARACTERS
    );
    stored.push(...(await store(events.slice(from, to))));
  }
  return stored;
}

/**
 * Keeps one connection of the pool free, so a handler that waits for its step doesn't hold the connection that the
 * step needs.
 */
export function keepOneFree(pool: object, connections = 1): InTurn {
  const turns = TURNS.get(pool) ?? takeTurns(connections);
  // All inboxes of a pool together.
  TURNS.set(pool, turns);
  return turns;
}

type InTurn = <Value>(transaction: () => Promise<Value>) => Promise<Value>;

const TURNS = new WeakMap<object, InTurn>();

function takeTurns(connections: number): InTurn {
  let free = Math.max(0, connections - 1);
  const waiting: (() => void)[] = [];
  const isUnlimited = free === 0;
  return async <Value>(transaction: () => Promise<Value>): Promise<Value> => {
    if (isUnlimited) return transaction();
    if (free > 0) free -= 1;
    else await new Promise<void>((resolve) => waiting.push(resolve));
    try {
      return await transaction();
    } finally {
      const next = waiting.shift();
      if (next === undefined) free += 1;
      else next();
    }
  };
}

/** @throws {ConfigError} if a step could wait for the connection that its own handler holds. */
export function assertFreeConnection(connections: number | undefined): void {
  if (connections !== undefined && connections > 1) return;
  throw new ConfigError(
    "ctx.step: a step needs a second connection besides the one that the handler's transaction holds. Raise the size of the pool to at least 2. If the inbox uses a data layer, also pass the size of the pool as `connections`.",
  );
}

const CONFLICT_WAIT_MS = 100;

export async function sendAgain<Value>(
  send: () => Promise<Value>,
  { isConflict, tries }: { isConflict(error: unknown): boolean; readonly tries: number },
  runtime: Runtime,
): Promise<Value> {
  for (let sent = 1; ; sent++) {
    try {
      return await send();
    } catch (error) {
      if (!isConflict(error) || sent >= tries) throw error;
      const waitMs = runtime.random() * Math.min(2 ** sent, CONFLICT_WAIT_MS);
      await new Promise<void>((resolve) => runtime.setTimeout(resolve, waitMs));
    }
  }
}

/** How long a connection may leave a statement of the inbox unanswered, in ms. Those of operators may take seconds. */
const SILENT_MS = 30_000;

/** Closes a connection that doesn't respond. Otherwise, the pool would wait for it and never get its slot back. */
export function orClose<Value>(
  answer: PromiseLike<Value>,
  close: (error: Error) => unknown,
  runtime: Runtime,
): Promise<Value> {
  const onTimeUp = () => {
    const message = `The server did not respond within ${SILENT_MS} ms, so the inbox closed the connection.`;
    const error = Object.assign(new Error(message), { code: 'ETIMEDOUT' });
    close(error);
    throw error;
  };
  return timeLimit(answer, SILENT_MS, onTimeUp, runtime);
}

/**
 * The error for a connection that came from the pool with an open transaction. Nothing was written over that
 * connection.
 */
export function leftOpen(cause: unknown): Error {
  return new Error(
    'A connection from the pool had an open transaction. The inbox wrote nothing and rolled that transaction back. Find the code that releases a connection without COMMIT or ROLLBACK, for example after an error or a query_timeout.',
    { cause },
  );
}
