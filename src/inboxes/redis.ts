/** The inbox in Redis: one truth for any number of receivers and workers, as lasting as that Redis is. */
import { ConfigError } from '../core/errors.js';
import { encodeEvent, type UnknownEvent } from '../core/events.js';
import {
  INBOX_STATES,
  type Inbox,
  type InboxOperations,
  type InboxRecord,
  type InboxState,
  type Origin,
  type RecordResult,
} from '../core/inbox.js';
import { bindScript, type RedisLike, type RedisScript } from './redis-client.js';
import { REDIS_SCRIPTS, type RedisStep } from './redis-scripts.js';

export {
  fromIoredis,
  fromNodeRedis,
  type IoredisLike,
  type NodeRedisLike,
  type RedisLike,
} from './redis-client.js';

/** Options of {@link redisInbox}. */
export interface RedisInboxOptions {
  /**
   * What every key begins with, in braces, so that a cluster keeps the inbox on one shard.
   *
   * @default 'stablehooks'
   */
  readonly prefix?: string;
  /**
   * Whether this Redis keeps what it was given. Say `false` of a cache: then no event is given up after
   * `maxAttempts`, as its 200 would be the last anyone heard of it, and no queue may stand behind it.
   *
   * @default true
   */
  readonly durable?: boolean;
}

/** How many events one script prunes: Redis runs nothing else meanwhile. */
const PRUNE_BATCH = 1_000;

/**
 * Makes an inbox in Redis 6.2 or later. Every step is one atomic script and one round trip, by Redis' clock.
 *
 * It remembers as well as that Redis does. Without `appendonly yes` a restart forgets what came since the
 * last snapshot; with `appendfsync everysec` a power cut forgets about a second; a failover forgets what the
 * replica had not got yet, whatever the settings. What is forgotten can run again if it comes again, and
 * comes again only while the service retries or lists it. `maxmemory-policy` must be `noeviction`. Where an
 * effect must never happen twice, take Postgres with `transactional`.
 *
 * A done event keeps its id for ever, about 600 bytes of memory each once {@link InboxOperations.prune} has
 * dropped its JSON.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when the prefix is empty or has braces.
 *
 * @example
 * ```ts
 * const inbox = redisInbox(fromIoredis(new Redis(url, { maxRetriesPerRequest: 1 })));
 * ```
 */
export function redisInbox(
  redis: RedisLike,
  { prefix = 'stablehooks', durable = true }: RedisInboxOptions = {},
): Omit<Inbox, 'transaction'> & InboxOperations {
  if (prefix === '' || /[{}]/.test(prefix)) {
    throw new ConfigError(
      '`prefix` must be text without braces; the inbox puts the braces of a hash tag round it.',
    );
  }
  const scripts = bindScripts(redis, `{${prefix}}`);

  return {
    durable,

    async claim(event, { leaseMs, origin, json = encodeEvent(event) }) {
      const { id, type } = event;
      const token = crypto.randomUUID();
      const values = [id, type, origin, leaseMs, token, json];
      const [state, number] = (await scripts.claim(values)) as [ClaimState, string];
      if (state === 'claimed') return { state, lease: { id, token, attempt: Number(number) } };
      return state === 'leased' ? { state, retryAfterMs: Number(number) } : { state };
    },

    complete: ({ id, token }) => isTold(scripts.complete([id, token])),

    fail: ({ id, token }, { retryAfterMs, error }) =>
      isTold(scripts.fail([id, token, retryAfterMs ?? '', error.slice(0, 1_000)])),

    async record(events, { dueInMs, origin }) {
      if (events.length === 0) return [];
      const page = events.flatMap((event) => [event.id, event.type, encodeEvent(event)]);
      return (await scripts.record([dueInMs ?? '', origin, ...page])) as readonly RecordResult[];
    },

    async takeDue({ limit, visibilityTimeoutMs, types }) {
      const events = (await scripts.takeDue([limit, visibilityTimeoutMs, ...types])) as readonly string[];
      return events.map((event) => JSON.parse(event) as UnknownEvent);
    },

    async acquirePoll({ holder, leaseMs }) {
      const [watermark, largest] = (await scripts.acquirePoll([holder, leaseMs])) as readonly string[];
      if (watermark === undefined) return null;
      return { watermark: watermark === '' ? null : Number(watermark), largest: Number(largest) };
    },

    savePoll: ({ watermark, largest }, { holder, leaseMs }) =>
      isTold(scripts.savePoll([holder, leaseMs, watermark ?? '', largest])),

    async find(id) {
      return toRecords(await scripts.find([id]))[0];
    },

    async list({ state, limit, after = '' }) {
      return toRecords(await scripts.list([state, limit, after]));
    },

    async count() {
      const counts = (await scripts.count(INBOX_STATES)) as readonly (readonly [string, string])[];
      return INBOX_STATES.map((state, index) => {
        const [count = '0', oldest = ''] = counts[index] ?? [];
        return { state, count: Number(count), oldest: oldest === '' ? null : Number(oldest) };
      });
    },

    requeue: (id) => isTold(scripts.requeue([id])),

    async prune({ olderThanMs }) {
      let total = 0;
      for (let pruned = PRUNE_BATCH; pruned === PRUNE_BATCH; total += pruned) {
        const [count] = (await scripts.prune([olderThanMs, PRUNE_BATCH])) as readonly string[];
        pruned = Number(count);
      }
      return total;
    },
  };
}

type ClaimState = 'claimed' | 'done' | 'dead' | 'leased';

/** A record as the scripts read it; what is not there is `false`. */
type Fields = readonly [
  id: string,
  type: string,
  state: InboxState,
  attempts: string,
  origin: Origin,
  receivedAt: string,
  updatedAt: string,
  dueAt: string | false,
  lastError: string | false,
  event: string | false,
];

function bindScripts(redis: RedisLike, key: string): Readonly<Record<RedisStep, RedisScript>> {
  const entries = Object.entries(REDIS_SCRIPTS);
  const bound = entries.map(([step, text]) => [step, bindScript(redis, { text, key })]);
  return Object.fromEntries(bound) as Record<RedisStep, RedisScript>;
}

/** The scripts that settle or save tell something when they did. */
async function isTold(reply: Promise<unknown>): Promise<boolean> {
  return ((await reply) as readonly string[]).length > 0;
}

function toRecords(reply: unknown): readonly InboxRecord[] {
  return (reply as readonly Fields[]).map((fields) => {
    const [id, type, state, attempts, origin, receivedAt, updatedAt, dueAt, lastError, event] = fields;
    return {
      id,
      type,
      state,
      attempts: Number(attempts),
      origin,
      receivedAt: Number(receivedAt),
      updatedAt: Number(updatedAt),
      dueAt: dueAt === false ? null : Number(dueAt),
      lastError: lastError === false ? null : lastError,
      event: event === false ? null : (JSON.parse(event) as UnknownEvent),
    };
  });
}
