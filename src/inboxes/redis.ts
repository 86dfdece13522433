import { toHex } from '../core/bytes.js';
import { ConfigError } from '../core/errors.js';
import { createdAtMs, encodeEvent, type UnknownEvent } from '../core/events.js';
import { readOptions, required, rule, withMethods } from '../core/options.js';
import {
  type Claim,
  EMPTY_POLL_STATE,
  INBOX_STATES,
  type Inbox,
  type InboxCount,
  type InboxOperations,
  type InboxRecord,
  type PollState,
  type RecordResult,
} from '../core/ports.js';
import { redactCommand } from '../core/redact-command.js';
import { RUNTIME, type RuntimeOptions, toRuntime } from '../core/runtime.js';
import {
  readCountOptions,
  readDiscardOptions,
  readImportedIds,
  readListOptions,
  readPruneOptions,
  readRequeueOptions,
  type Selection,
  unknownAfter,
} from './operation-options.js';
import { REDIS_SCRIPTS, type RedisScript } from './redis-lua.js';
import { type EventRow, toRecord, toStored } from './rows.js';
import { byAge, isSelected } from './selection.js';

/**
 * Runs scripts. A client of `@upstash/redis` needs no adapter; adapt ioredis with {@link fromIoredis} and
 * node-redis with {@link fromNodeRedis}, clusters of both included.
 */
export interface RedisLike {
  eval(script: string, keys: string[], values: string[]): Promise<unknown>;
  evalsha(sha1: string, keys: string[], values: string[]): Promise<unknown>;
  /** Ends the connection and connects again: its server became read-only, as after a failover. @default nothing */
  reconnect?(): unknown;
}

/** The methods of an ioredis client or cluster that the inbox uses. */
export interface IoredisLike {
  eval(script: string, keyCount: number, ...keysAndValues: string[]): Promise<unknown>;
  evalsha(sha1: string, keyCount: number, ...keysAndValues: string[]): Promise<unknown>;
  disconnect?(reconnect: boolean): unknown;
}

/** The methods of a node-redis client, pool or cluster that the inbox uses. */
export interface NodeRedisLike {
  eval(script: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>;
  evalSha(sha1: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>;
  /** A cluster has one with other parameters. */
  sendCommand?(...args: never[]): Promise<unknown>;
}

/**
 * Adapts an ioredis client to the Redis inbox.
 *
 * Create the client with `enableOfflineQueue: false` or a small `maxRetriesPerRequest`. By default ioredis
 * waits for a server that is down, and the delivery is not answered 503.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when `client` is not an ioredis client.
 *
 * @example
 * ```ts
 * const inbox = redisInbox(fromIoredis(new Redis(url, { maxRetriesPerRequest: 1 })));
 * ```
 */
export function fromIoredis(client: IoredisLike): RedisLike {
  const ioredis = withMethods('a client or cluster of ioredis', ['eval', 'evalsha']);
  readOptions('fromIoredis', { client }, { client: required(ioredis) });
  return {
    eval: (script, keys, values) => client.eval(script, keys.length, ...keys, ...values),
    evalsha: (sha1, keys, values) => client.evalsha(sha1, keys.length, ...keys, ...values),
    reconnect: () => client.disconnect?.(true),
  };
}

/**
 * Adapts a node-redis client to the Redis inbox.
 *
 * Create the client with `disableOfflineQueue: true`; otherwise it waits for a server that is down, and the
 * delivery is not answered 503. Add an `error` listener. A `typeMapping` of strings to Buffers does not matter.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when `client` is not a node-redis client.
 *
 * @example
 * ```ts
 * const client = await createClient({ url, disableOfflineQueue: true }).on('error', console.error).connect();
 * const inbox = redisInbox(fromNodeRedis(client));
 * ```
 */
export function fromNodeRedis(client: NodeRedisLike): RedisLike {
  const nodeRedis = withMethods('a client, pool or cluster of node-redis (the package redis)', [
    'eval',
    'evalSha',
  ]);
  readOptions('fromNodeRedis', { client }, { client: required(nodeRedis) });
  return {
    eval: (script, keys, values) => client.eval(script, { keys, arguments: values }),
    evalsha: (sha1, keys, values) => client.evalSha(sha1, { keys, arguments: values }),
    // The server closes the connection, and the client connects again.
    reconnect: () => client.sendCommand?.(...([['QUIT']] as never[])),
  };
}

/** Options of {@link redisInbox}. */
export interface RedisInboxOptions {
  /**
   * The prefix of every key, without braces. The inbox adds the braces of a hash tag: a cluster keeps all
   * keys on one shard.
   *
   * @default 'stablehooks'
   */
  readonly prefix?: string | undefined;
  /** Randomness, for tests: the time is that of the server. @default those of the platform */
  readonly runtime?: RuntimeOptions | undefined;
}

const PREFIX_RULE = rule<string>(
  'a string without braces that is not empty; the inbox adds the braces of a hash tag',
  (value) => typeof value === 'string' && value !== '' && !/[{}]/.test(value),
  'stablehooks',
);

const WITH_SCRIPTS = withMethods('a client that runs scripts', ['eval', 'evalsha']);
const IOREDIS = withMethods('a client of ioredis', ['defineCommand']);
// An ioredis client has methods of the same names with other parameters.
const REDIS_RULE = rule(
  'fromIoredis(client), fromNodeRedis(client), or a client of @upstash/redis',
  (value) => WITH_SCRIPTS.accepts(value) && !IOREDIS.accepts(value),
);

type StoreSettings = Parameters<Inbox['record']>[1] & { readonly state: 'received' | 'parked' | 'done' };

/** Which records to read. */
interface Query extends Partial<ReturnType<typeof readListOptions>> {
  readonly selection: Selection;
  readonly limit: number;
}

/** How many events one script reads, changes or prunes: Redis runs nothing else meanwhile. */
const MAX_PAGE = 500;
const CHANGE_BATCH = 1_000;
const PRUNE_BATCH = 1_000;

/**
 * Keeps events in Redis 6.2 or later, for any number of receivers and workers. Each step is one atomic script
 * and one round trip, and uses the clock of the server.
 *
 * The inbox is as durable as its Redis. Without `appendonly yes` a restart loses everything since the last
 * snapshot; with `appendfsync everysec` a power failure loses about a second; a failover loses what the
 * replica had not received, whatever the settings. An event that was lost runs again if it is delivered or
 * listed again, and only while the service retries or lists it. If an effect must never happen twice, use Postgres with
 * `transactional`.
 *
 * The id of a done event is kept permanently: about 600 bytes of memory after {@link InboxOperations.prune} has
 * removed its JSON, and 70 more with a trace context.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when an option or `redis` is wrong. The first call rejects with it when the
 * `maxmemory-policy` of the server is not `noeviction`; a server that forbids INFO in scripts is not checked.
 *
 * @example
 * ```ts
 * const inbox = redisInbox(fromIoredis(new Redis(url, { maxRetriesPerRequest: 1 })));
 * ```
 */
export function redisInbox(
  redis: RedisLike,
  options: RedisInboxOptions = {},
): Omit<Inbox, 'transaction'> & InboxOperations {
  const { prefix, runtime } = readOptions('redisInbox', options, {
    prefix: PREFIX_RULE,
    runtime: RUNTIME,
  });
  readOptions('redisInbox', { redis }, { redis: required(REDIS_RULE) });
  const { uuid } = toRuntime(runtime);
  const scripts = bindScripts(redis, `{${prefix}}`);

  /** Stores the new events of a page in one state, and answers for each event. */
  async function store(
    events: readonly UnknownEvent[],
    { state, dueInMs, origin, json = [], keys = [], traceparent = '' }: StoreSettings,
  ): Promise<readonly RecordResult[]> {
    if (events.length === 0) return [];
    const page = events.flatMap((event, index) => [
      event.id,
      event.type,
      json[index] ?? encodeEvent(event),
      keys[index] ?? '',
      keys[index] === undefined ? '' : toCreated(event),
    ]);
    const reply = await scripts.record([state, dueInMs ?? '', origin, traceparent, ...page]);
    return reply as readonly RecordResult[];
  }

  /** Pages of selected records: at most `limit` of each state. Redis runs nothing else during a script, so each is short. */
  async function* readPages({ selection, limit, after, order = 'oldest' }: Query) {
    if (selection.ids !== undefined) {
      const [last] = after === undefined ? [] : await find([after]);
      if (after !== undefined && last === undefined) throw unknownAfter(after);
      const sign = order === 'newest' ? -1 : 1;
      const isAfter = (record: InboxRecord) => last === undefined || sign * byAge(record, last) > 0;
      const found = await find([...new Set(selection.ids)]);
      yield found.filter((record) => isSelected(record, selection) && isAfter(record));
      return;
    }
    for (const state of selection.states) {
      let room = limit;
      // Pages become larger, because a filter can find few.
      for (let last = after, size = Math.min(limit, MAX_PAGE); ; size = Math.min(size * 2, MAX_PAGE)) {
        const reply = await scripts.list([state, size, last ?? '', order]);
        if (last !== undefined && reply[0] === 'unknown') throw unknownAfter(last);
        const page = (reply as readonly EventRow[]).map(toRecord);
        const found = page.filter((record) => isSelected(record, selection));
        yield found;
        room -= found.length;
        last = page.at(-1)?.id;
        if (room <= 0 || page.length < size) break;
      }
    }
  }

  /** The selected records, in their order. */
  async function select(query: Query): Promise<readonly InboxRecord[]> {
    const found: InboxRecord[] = [];
    for await (const page of readPages(query)) found.push(...page);
    const sign = query.order === 'newest' ? -1 : 1;
    return found.sort((one, other) => sign * byAge(one, other)).slice(0, query.limit);
  }

  async function find(ids: readonly string[]): Promise<readonly InboxRecord[]> {
    return ((await scripts.find(ids)) as readonly EventRow[]).map(toRecord);
  }

  /** Changes records that have not changed since they were read, and returns how many. */
  async function change(records: readonly InboxRecord[], run: RunScript): Promise<number> {
    let changed = 0;
    for (let at = 0; at < records.length; at += CHANGE_BATCH) {
      const page = records.slice(at, at + CHANGE_BATCH);
      changed += Number((await run(page.flatMap(({ id, updatedAt }) => [id, updatedAt])))[0]);
    }
    return changed;
  }

  return {
    durable: true,

    async claim(event, { leaseMs, origin, json = encodeEvent(event), early = false, key, traceparent = '' }) {
      const { id, type } = event;
      const token = uuid();
      const values = [id, type, origin, leaseMs, token, json, early ? 1 : '', traceparent];
      if (key !== undefined) values.push(key, toCreated(event));
      const [state, number, stored = ''] = (await scripts.claim(values)) as [Claim['state'], string, string?];
      if (state === 'claimed') {
        const lease = { id, token, attempt: Number(number), key };
        return { state, lease: { ...lease, traceparent: stored === '' ? undefined : stored } };
      }
      if (state === 'done' || state === 'dead') return { state };
      return { state, retryAfterMs: Number(number) };
    },

    // Each call has an id of its own: a client that lost the reply sends it again, and the answer must be the same.
    complete: ({ id, token }) => succeeded(scripts.complete([id, token, uuid()])),

    fail: ({ id, token }, { retryAfterMs, error }) =>
      succeeded(scripts.fail([id, token, uuid(), retryAfterMs ?? '', error.slice(0, 1_000)])),

    record: (events, options) =>
      store(events, { ...options, state: options.dueInMs === null ? 'parked' : 'received' }),

    ignore: (events, options) => store(events, { ...options, state: 'done', dueInMs: null }),

    async takeDue({ limit, visibilityTimeoutMs, types, onDamaged }) {
      const rows = await scripts.takeDue([limit, visibilityTimeoutMs, ...types]);
      return toStored(rows as readonly EventRow[], onDamaged);
    },

    async acquirePoll({ holder, leaseMs }) {
      const [state] = (await scripts.acquirePoll([holder, leaseMs])) as readonly string[];
      return state === undefined ? null : toPollState(state);
    },

    savePoll: (state, { holder, leaseMs }) =>
      succeeded(scripts.savePoll([holder, leaseMs, JSON.stringify(state)])),

    async pollState() {
      const [state = ''] = (await scripts.poll([])) as readonly string[];
      return toPollState(state);
    },

    async lastPoller() {
      const [, holder = ''] = (await scripts.poll([])) as readonly string[];
      return holder === '' ? null : holder;
    },

    async find(id) {
      return (await find([id]))[0];
    },

    async list(options) {
      return select(readListOptions(options));
    },

    async count(filter) {
      if (filter === undefined) return (await scripts.count(INBOX_STATES)) as readonly InboxCount[];
      const times = new Map(INBOX_STATES.map((state) => [state, [] as number[]]));
      const query = { selection: readCountOptions(filter), limit: Number.MAX_SAFE_INTEGER };
      for await (const page of readPages(query)) {
        for (const { state, updatedAt } of page) times.get(state)?.push(updatedAt);
      }
      return Array.from(times, ([state, found]) => {
        const oldest = found.reduce((least: number | null, at) => Math.min(least ?? at, at), null);
        return { state, count: found.length, oldest };
      });
    },

    async requeue(which) {
      return change(await select(readRequeueOptions(which)), scripts.requeue);
    },

    async discard(options) {
      const { by, reason, ...which } = readDiscardOptions(options);
      return change(await select(which), (values) => scripts.discard([by, reason, ...values]));
    },

    async importDone(ids) {
      let added = 0;
      for (const page of readImportedIds(ids)) added += Number((await scripts.importDone(page))[0]);
      return added;
    },

    async prune(options) {
      const { olderThanMs } = readPruneOptions(options);
      let total = 0;
      for (let pruned = PRUNE_BATCH; pruned === PRUNE_BATCH; total += pruned) {
        [pruned = 0] = (await scripts.prune([olderThanMs, PRUNE_BATCH])).map(Number);
      }
      return total;
    },
  };
}

/** Runs a script with its values. */
type RunScript = (values: readonly (string | number)[]) => Promise<readonly unknown[]>;

function bindScripts(redis: RedisLike, key: string): Readonly<Record<RedisScript, RunScript>> {
  const bind = (lua: string) => bindScript(redis, { lua, key });
  const readPolicy = bind(REDIS_SCRIPTS.evictionPolicy);
  let isChecked = false;
  async function checkPolicy(): Promise<void> {
    const [policy] = await readPolicy([]);
    if (policy !== '' && policy !== 'noeviction') {
      throw new ConfigError(
        `redisInbox: the maxmemory-policy of this Redis is ${policy}, so it can evict events. Set it to noeviction.`,
      );
    }
    isChecked = true;
  }
  const entries = Object.entries(REDIS_SCRIPTS).map(([name, lua]): [string, RunScript] => {
    const run = bind(lua);
    return [name, async (values) => (isChecked ? run(values) : checkPolicy().then(() => run(values)))];
  });
  return Object.fromEntries(entries) as Record<RedisScript, RunScript>;
}

/** The script runs by its digest, and is sent in full only if the server does not have it. */
function bindScript(
  redis: RedisLike,
  { lua, key }: { readonly lua: string; readonly key: string },
): RunScript {
  let sha1: Promise<string> | undefined;
  // Two keys that never exist. While a cluster moves their slot, it refuses a command with several keys of which one is
  // missing (TRYAGAIN): with one key, or with keys that exist, a script would run where a part of the events is missing.
  const keys = [key, `${key}:absent`];

  async function run(values: string[]): Promise<unknown> {
    sha1 ??= digestHex(lua);
    try {
      return await redis.evalsha(await sha1, keys, values);
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      if (error.message.includes('READONLY')) await reconnect();
      if (!error.message.includes('NOSCRIPT')) throw error;
      return await redis.eval(lua, keys, values);
    }
  }

  async function reconnect(): Promise<void> {
    try {
      await redis.reconnect?.();
    } catch {
      // The next step fails as well, and tries again.
    }
  }

  return async (values) => readReply(await redactCommand(run(values.map(String))));
}

/** Reads the JSON array that a script returns: as text, as a Buffer of node-redis, or as the client of Upstash parsed it. */
function readReply(reply: unknown): readonly unknown[] {
  return Array.isArray(reply) ? reply : (JSON.parse(String(reply)) as readonly unknown[]);
}

async function digestHex(lua: string): Promise<string> {
  const bytes = await crypto.subtle.digest('SHA-1', new TextEncoder().encode(lua));
  return toHex(new Uint8Array(bytes));
}

/** Scripts that change something return an empty array if they changed nothing. */
async function succeeded(reply: Promise<unknown>): Promise<boolean> {
  return ((await reply) as readonly string[]).length > 0;
}

/** When the event was created, as digits that sort by it: those of the ms since the year -1200. */
function toCreated(event: UnknownEvent): string {
  return String(createdAtMs(event) + 1e14).padStart(15, '0');
}

/** The state is empty before the first save. */
function toPollState(state: string): PollState {
  return state === '' ? EMPTY_POLL_STATE : (JSON.parse(state) as PollState);
}
