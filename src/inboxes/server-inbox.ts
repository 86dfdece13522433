import { ConfigError } from '../core/errors.js';
import type { StoredEvent } from '../core/ports.js';
import { type Runtime, type RuntimeOptions, timeLimit } from '../core/runtime.js';
import type { AttemptEnd, ClaimRow, NewEvent, Stored, StoreOps } from './create-inbox.js';
import { type EventRow, type NoteRow, type StepRow, toNote, toRecord } from './rows.js';
import type { Values } from './statements.js';

/** Options that the Postgres and MySQL inboxes share. */
export interface ServerInboxOptions {
  /**
   * Whether handlers receive an open transaction as `ctx.tx`. The same transaction marks the event as done, so everything
   * that a handler writes through `ctx.tx` takes effect exactly once.
   *
   * Each running handler holds one connection from the pool. The inbox keeps one connection free for claims and steps, so
   * the pool needs at least one more connection than there are concurrent handlers.
   *
   * @default false
   */
  readonly transactional?: boolean | undefined;
  /**
   * The size of the pool. To run `ctx.step` in transactional handlers, the inbox must know this size, and the size must be
   * at least 2.
   *
   * @default the size of a pool from `pg` or `mysql2`; unknown for data layers
   */
  readonly connections?: number | undefined;
  /** Replaces timers and randomness in tests. Times come from the server's clock. @default those of the platform */
  readonly runtime?: RuntimeOptions | undefined;
}

/** The names of each operation's values, in the order in which a call passes the values. */
export const VALUES = {
  claim: ['id', 'type', 'origin', 'leaseMs', 'token', 'json', 'early', 'key', 'createdMs'],
  finish: ['id', 'token', 'key', 'result', 'retryAfterMs', 'error', 'maxAgeMs'],
  find: ['id'],
  /** `token`: the token that the event's lease must have, or `null` if the lease doesn't matter. */
  steps: ['id', 'token'],
  saveStep: ['id', 'token', 'name', 'value', 'what'],
  /** `done`: the names of the steps to mark as done. `again`: the names of the steps to forget. */
  stateSteps: ['id', 'done', 'again'],
  takeDue: ['limit', 'visibilityTimeoutMs', 'types'],
  importDone: ['ids'],
  prune: ['olderThanMs', 'limit'],
  readNote: ['name'],
  /** `holder`: who must have leased the note last, or `null` if anyone may write the note. */
  writeNote: ['name', 'note', 'holder'],
  leaseNote: ['name', 'holder', 'leaseMs'],
} as const;

export interface EndedRow {
  /** The result is `null` if the lease is lost. */
  readonly ended: string | null;
}

export const toEnded = (row: EndedRow | undefined, { result }: AttemptEnd) =>
  row?.ended === 'dead' && result === 'later' ? 'dead' : Boolean(row?.ended);

interface CountRow {
  readonly count: number | string;
}

export const readCount = (rows: readonly CountRow[]) => Number(rows[0]?.count ?? 0);

/** Some changes return a row only to show that they changed something. */
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

/** A release increases this version if older releases can't use its tables or its Redis keys. */
export const VERSION = 1;

/** How often to check, in ms. Another process can change the server's tables and settings at any time. */
const CHECK_MS = 60_000;

/** Checks the server at the first call, and later whenever the last check is too old. */
export function checkedOften(check: () => Promise<void>, { elapsed }: Pick<Runtime, 'elapsed'>) {
  let checkAt = Number.NEGATIVE_INFINITY;
  const checkNow = async () => {
    await check();
    checkAt = elapsed() + CHECK_MS;
  };
  return () => (elapsed() < checkAt ? undefined : checkNow());
}

/** @param migrate - how to bring older tables to this version. */
export function assertVersion(inbox: string, found: unknown, migrate: string): void {
  if (Number(found) === VERSION) return;
  const [release, fix] =
    Number(found) > VERSION ? ['a newer', 'Upgrade stablehooks in this process'] : ['an older', migrate];
  throw new ConfigError(
    `${inbox}: ${release} release of stablehooks wrote these tables. The tables have version ${Number(found)}, but this release supports version ${VERSION}. ${fix}.`,
  );
}

/** Each event takes a lock, and Postgres has room for 6,400 locks by default. */
const MAX_EVENTS = 200;

/** MySQL accepts 16 MB by default, and the encoding can make a text four times as long. */
const MAX_CHARACTERS = 1_000_000;

/** Each part is stored atomically. */
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

/** Without a free connection, handlers that wait for their steps could hold all the connections that those steps need. */
export function keepOneFree(pool: object, connections = 1): InTurn {
  const turns = TURNS.get(pool) ?? takeTurns(connections);
  // All inboxes that use the same pool share its turns.
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
    "ctx.step: a step needs a second connection in addition to the connection that the handler's transaction holds. Increase the size of the pool to at least 2. If the inbox uses a data layer, also pass the size of the pool as `connections`.",
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

/** How long to wait for a response, in ms. Statements for operators can take seconds. */
const SILENT_MS = 30_000;

/** Closes the connection if the server doesn't respond in time. Otherwise, the pool would never get the connection back. */
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

export function leftOpen(cause: unknown): Error {
  return new Error(
    'A connection from the pool had an open transaction. The inbox wrote nothing and rolled that transaction back. Find the code that releases a connection without COMMIT or ROLLBACK, for example after an error or a query_timeout.',
    { cause },
  );
}
