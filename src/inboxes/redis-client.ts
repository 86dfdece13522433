/** What the Redis inbox needs of a client: running a script. Each client spells that in its own way. */
import { toHex } from '../core/bytes.js';
import { redactCommand } from '../core/driver-error.js';

/**
 * Runs a script; `@upstash/redis` fits as it is, ioredis by {@link fromIoredis}, node-redis by
 * {@link fromNodeRedis}, clusters of both included.
 */
export interface RedisLike {
  eval(script: string, keys: string[], values: string[]): Promise<unknown>;
  evalsha(sha1: string, keys: string[], values: string[]): Promise<unknown>;
}

/** The least of an ioredis client or cluster. */
export interface IoredisLike {
  eval(script: string, keyCount: number, ...keysAndValues: string[]): Promise<unknown>;
  evalsha(sha1: string, keyCount: number, ...keysAndValues: string[]): Promise<unknown>;
}

/**
 * Fits an ioredis client to the Redis inbox.
 *
 * Make the client with `enableOfflineQueue: false` or a small `maxRetriesPerRequest`: as it comes it waits
 * for a lost server, where a delivery should be answered 503.
 *
 * @example
 * ```ts
 * const inbox = redisInbox(fromIoredis(new Redis(url, { maxRetriesPerRequest: 1 })));
 * ```
 */
export function fromIoredis(client: IoredisLike): RedisLike {
  return {
    eval: (script, keys, values) => client.eval(script, keys.length, ...keys, ...values),
    evalsha: (sha1, keys, values) => client.evalsha(sha1, keys.length, ...keys, ...values),
  };
}

/** The least of a node-redis client, pool or cluster. */
export interface NodeRedisLike {
  eval(script: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>;
  evalSha(sha1: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>;
}

/**
 * Fits a node-redis client to the Redis inbox.
 *
 * Make the client with `disableOfflineQueue: true`, or a delivery waits for a lost server instead of being
 * answered 503; and give it an `error` listener.
 *
 * @example
 * ```ts
 * const client = await createClient({ url, disableOfflineQueue: true }).on('error', console.error).connect();
 * const inbox = redisInbox(fromNodeRedis(client));
 * ```
 */
export function fromNodeRedis(client: NodeRedisLike): RedisLike {
  return {
    eval: (script, keys, values) => client.eval(script, { keys, arguments: values }),
    evalsha: (sha1, keys, values) => client.evalSha(sha1, { keys, arguments: values }),
  };
}

/** A script that runs by its digest, and is sent whole only where the server does not have it yet. */
export type RedisScript = (values: readonly (string | number)[]) => Promise<unknown>;

/** Binds a script to a client and the one key that all others begin with. */
export function bindScript(
  redis: RedisLike,
  { text, key }: { readonly text: string; readonly key: string },
): RedisScript {
  let sha1: Promise<string> | undefined;

  async function run(values: string[]): Promise<unknown> {
    sha1 ??= digestHex(text);
    try {
      return await redis.evalsha(await sha1, [key], values);
    } catch (error) {
      if (!(error instanceof Error && error.message.includes('NOSCRIPT'))) throw error;
      return await redis.eval(text, [key], values);
    }
  }

  return async (values) => {
    const reply = await redactCommand(run(values.map(String)));
    // Upstash's client has parsed it already.
    return typeof reply === 'string' ? JSON.parse(reply) : reply;
  };
}

async function digestHex(text: string): Promise<string> {
  const bytes = await crypto.subtle.digest('SHA-1', new TextEncoder().encode(text));
  return toHex(new Uint8Array(bytes));
}
