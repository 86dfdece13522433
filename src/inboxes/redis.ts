import { toHex } from '../core/bytes.js';
import { ConfigError } from '../core/errors.js';
import { readOptions, required, rule, withMethods } from '../core/options.js';
import { INBOX_STATES, type Inbox, type InboxOperations, type InboxRecord } from '../core/ports.js';
import { redactCommand } from '../core/redact-command.js';
import { RUNTIME, type Runtime, type RuntimeOptions, toRuntime } from '../core/runtime.js';
import { createInbox, type StoreOps } from './create-inbox.js';
import { countRecords, type Person } from './operations.js';
import { type RedisScript, SCRIPT_VALUES, toLua } from './redis-lua.js';
import { type EventRow, toRecord } from './rows.js';
import { isSelected, type Limited, type PageQuery, toPage } from './selection.js';
import { assertVersion, callOps, checkedOften, orClose, readCount } from './server-inbox.js';
import type { Values } from './statements.js';

export type { Inbox, InboxOperations } from '../core/ports.js';

/**
 * Runs Lua scripts. A client from `@upstash/redis` needs no adapter. Adapt a client or cluster from ioredis with {@link
 * fromIoredis}, and a client, pool or cluster from node-redis with {@link fromNodeRedis}.
 */
export interface RedisLike {
  eval(script: string, keys: string[], values: string[]): Promise<unknown>;
  evalsha(sha1: string, keys: string[], values: string[]): Promise<unknown>;
  /**
   * Called to reconnect when the server becomes read-only or stops responding, for example during a failover.
   * @default does nothing
   */
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
  /** A cluster has a method with the same name but different parameters. */
  sendCommand?(...args: never[]): Promise<unknown>;
}

/**
 * Adapts an ioredis client to the Redis inbox.
 *
 * Create the client with `enableOfflineQueue: false` or a small `maxRetriesPerRequest`. By default, ioredis waits while the
 * server is down, so deliveries don't get a 503.
 */
export function fromIoredis(client: IoredisLike): RedisLike {
  return {
    eval: (script, keys, values) => client.eval(script, keys.length, ...keys, ...values),
    evalsha: (sha1, keys, values) => client.evalsha(sha1, keys.length, ...keys, ...values),
    reconnect: () => client.disconnect?.(true),
  };
}

/**
 * Adapts a node-redis client to the Redis inbox.
 *
 * Create the client with `disableOfflineQueue: true`. Otherwise, the client waits while the server is down, and deliveries
 * don't get a 503. Add an `error` listener. The inbox also works with a `typeMapping` that returns strings as Buffers.
 */
export function fromNodeRedis(client: NodeRedisLike): RedisLike {
  return {
    eval: (script, keys, values) => client.eval(script, { keys, arguments: values }),
    evalsha: (sha1, keys, values) => client.evalSha(sha1, { keys, arguments: values }),
    // The server closes the connection, and then the client reconnects.
    reconnect: () => client.sendCommand?.(...([['QUIT']] as never[])),
  };
}

/** Options of {@link redisInbox}. */
export interface RedisInboxOptions {
  /**
   * The prefix of every key. The prefix must not contain braces. The inbox adds braces to make the prefix a hash tag, so a
   * cluster keeps all keys on one shard.
   *
   * @default 'stablehooks'
   */
  readonly prefix?: string | undefined;
  /** Replaces timers and randomness in tests. Times come from the server's clock. @default those of the platform */
  readonly runtime?: RuntimeOptions | undefined;
}

const PREFIX_RULE = rule<string>(
  'a non-empty string without braces, because the inbox adds the braces of a hash tag',
  (value) => typeof value === 'string' && value !== '' && !/[{}]/.test(value),
  'stablehooks',
);

const REDIS_RULE = withMethods(
  'fromIoredis(client), fromNodeRedis(client), or a client from @upstash/redis',
  ['eval', 'evalsha'],
);

type Query = Limited & Partial<PageQuery>;

/** How many events one script can read. Redis blocks other clients while a script runs. */
const MAX_PAGE = 500;
const CHANGE_BATCH = 1_000;

/**
 * Stores events in Redis 6.2 or later, for any number of receivers and workers. Each operation of a receiver is one atomic
 * script and takes one round trip. The inbox uses the server's clock.
 *
 * The inbox is only as durable as your Redis. docs/inboxes.md explains what you can lose with each setting. A lost event
 * runs again if it is delivered or listed again. If an effect must never happen twice, use Postgres with `transactional`.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when an option or `redis` is invalid. While the server's `maxmemory-policy`
 * isn't `noeviction`, the inbox's methods reject with this error. The inbox checks the policy once a minute, unless the
 * server forbids INFO in scripts.
 */
export function redisInbox(redis: RedisLike, options: RedisInboxOptions = {}): Inbox & InboxOperations {
  const { prefix, ...given } = readOptions('redisInbox', options, {
    prefix: PREFIX_RULE,
    runtime: RUNTIME,
  });
  readOptions('redisInbox', { redis }, { redis: required(REDIS_RULE) });
  const runtime = toRuntime(given.runtime);
  const runScript = scriptRunner(redis, `{${prefix}}`, runtime);

  function call<Row>(name: RedisScript, values: Values) {
    const names: readonly string[] = SCRIPT_VALUES[name];
    // A client that lost the reply sends the same call again, and must get the same answer.
    const given = names.includes('call') ? { ...values, call: runtime.uuid() } : values;
    return runScript(
      name,
      names.map((each) => given[each]),
    ) as Promise<readonly Row[]>;
  }

  /** Each script reads only one page, because Redis runs nothing else during a script. */
  async function* readPages({ selection, limit, after, order = 'oldest', withEvents = true }: Query) {
    if (selection.ids !== undefined) {
      const [last] = after === undefined ? [] : await call<EventRow>('find', { id: after });
      if (after !== undefined && last === undefined) return;
      const found = (await call<EventRow>('findAll', { ids: [...new Set(selection.ids)], withEvents })).map(
        toRecord,
      );
      const selected = found.filter((record) => isSelected(record, selection));
      yield toPage(selected, { order, limit, last: last && toRecord(last) });
      return;
    }
    for (const state of selection.states) {
      let room = limit;
      // Pages grow, because a filter may match only a few events.
      for (let last = after, size = Math.min(limit, MAX_PAGE); ; size = Math.min(size * 2, MAX_PAGE)) {
        const page = (
          await call<EventRow>('list', { state, limit: size, after: last, order, withEvents })
        ).map(toRecord);
        const found = page.filter((record) => isSelected(record, selection));
        yield found;
        room -= found.length;
        last = page.at(-1)?.id;
        if (room <= 0 || page.length < size) break;
      }
    }
  }

  async function select({ order = 'oldest', ...query }: Query): Promise<readonly InboxRecord[]> {
    const found: InboxRecord[] = [];
    for await (const page of readPages({ order, ...query })) found.push(...page);
    return toPage(found, { order, limit: query.limit });
  }

  /** Skips events that have changed since they were read. */
  async function change(result: 'discarded' | 'requeued', which: Limited, who?: Person) {
    const records = await select(which);
    let changed = 0;
    for (let at = 0; at < records.length; at += CHANGE_BATCH) {
      const versions = records.slice(at, at + CHANGE_BATCH).flatMap(({ id, updatedAt }) => [id, updatedAt]);
      changed += readCount(await call('change', { result, ...who, versions }));
    }
    return changed;
  }

  const ops: StoreOps<undefined> = {
    ...callOps(call),
    list: select,
    async count(selection) {
      if (selection === undefined) return call('count', { states: INBOX_STATES });
      const found: Pick<InboxRecord, 'state' | 'updatedAt'>[] = [];
      for await (const page of readPages({ selection, limit: Number.MAX_SAFE_INTEGER })) {
        // Only these two fields are kept, because there can be many events.
        for (const { state, updatedAt } of page) found.push({ state, updatedAt });
      }
      return countRecords(found);
    },
    async endLeases({ selection, limit }) {
      const { ahead, expired, held = [] } = selection;
      const kind = ahead ? 'ahead' : expired ? 'expired' : 'any';
      const ids = ahead ? [] : (await select({ selection, limit })).map(({ id }) => id);
      return ahead || ids.length > 0 ? call('endLeases', { kind, held, ids, limit }) : [];
    },
    requeue: (which, who) => change('requeued', which, who),
    discard: (which, who) => change('discarded', which, who),

    store: ({ events, ...page }) =>
      call('record', {
        ...page,
        events: events.flatMap(({ id, type, json, key, createdMs }) => [id, type, json, key, createdMs]),
      }),
  };
  return createInbox(ops, runtime);
}

/** Sends a script in full only if the server doesn't have it. */
function scriptRunner(redis: RedisLike, key: string, runtime: Runtime) {
  const digests = new Map<RedisScript, Promise<string>>();
  // These two keys never exist, so a cluster that is moving their slot rejects the command (TRYAGAIN). With one key, or with
  // keys that exist, a script would run on a node that lacks some of the events.
  const keys = [key, `${key}:absent`];
  async function send(name: RedisScript, values: string[]): Promise<unknown> {
    const digest = digests.get(name) ?? digestHex(toLua(name));
    digests.set(name, digest);
    try {
      return await inTime(redis.evalsha(await digest, keys, values));
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      if (error.message.includes('READONLY')) await reconnect();
      if (!error.message.includes('NOSCRIPT')) throw error;
      return await inTime(redis.eval(toLua(name), keys, values));
    }
  }

  // An error must not contain the command, because the payload in the command can contain any word.
  const inTime = (reply: Promise<unknown>) => redactCommand(orClose(reply, reconnect, runtime));

  async function reconnect(): Promise<void> {
    try {
      await redis.reconnect?.();
    } catch {
      // If this fails, the next operation fails too, and tries to reconnect again.
    }
  }

  async function run(name: RedisScript, values: readonly unknown[]): Promise<readonly unknown[]> {
    const reply = await send(name, values.flatMap(toTexts));
    // The Upstash client parses the JSON. Other clients return text, and node-redis can be configured to return a Buffer.
    return Array.isArray(reply) ? reply : (JSON.parse(String(reply)) as readonly unknown[]);
  }

  const assertServer = checkedOften(async () => {
    const [policy, version] = await run('check', []);
    if (policy !== '' && policy !== 'noeviction') {
      throw new ConfigError(
        `redisInbox: the maxmemory-policy of this Redis is ${policy}, so Redis can evict events. Set the policy to noeviction.`,
      );
    }
    assertVersion('redisInbox', version, 'Use another `prefix`');
  }, runtime);

  return async (name: RedisScript, values: readonly unknown[]) => {
    await assertServer();
    return run(name, values);
  };
}

/** A missing value becomes an empty text, and the length of a list comes before its items. */
function toTexts(value: unknown): string | readonly string[] {
  if (Array.isArray(value)) return [String(value.length), ...value.flatMap(toTexts)];
  return typeof value === 'boolean' ? (value ? '1' : '') : String(value ?? '');
}

async function digestHex(lua: string): Promise<string> {
  const bytes = await crypto.subtle.digest('SHA-1', new TextEncoder().encode(lua));
  return toHex(new Uint8Array(bytes));
}
