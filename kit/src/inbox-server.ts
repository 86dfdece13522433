/** Inboxes in a Postgres or a Redis, by the drivers of the project at hand. */
import type { InboxOperations } from 'stablehooks';
import type { Inbox } from 'stablehooks/conformance';
import type { PgLike } from 'stablehooks/inboxes/postgres';
import { postgresInbox } from 'stablehooks/inboxes/postgres';
import {
  fromIoredis,
  fromNodeRedis,
  type IoredisLike,
  type NodeRedisLike,
  redisInbox,
} from 'stablehooks/inboxes/redis';
import { usageError } from './failure.js';
import { importFromProject } from './project-package.js';

/** An inbox that a command opened, and has to close. */
export interface OpenInbox extends Omit<Inbox, 'transaction'>, InboxOperations {
  close(): unknown;
}

/** How long to wait for a connection, in ms. */
const CONNECT_MS = 5_000;

/** As much of `pg` as is used. */
interface Pg {
  readonly Pool: new (options: {
    readonly connectionString: string;
    readonly connectionTimeoutMillis: number;
    readonly max: number;
  }) => PgLike & { end(): Promise<void> };
}

/** Opens the inbox of a Postgres; its tables must be there. */
export async function openPostgres(connectionString: string): Promise<OpenInbox> {
  const { pg } = await importFromProject<{ pg: Pg }>(['pg'], {
    why: 'An inbox in Postgres needs its driver.',
  });
  if (pg === undefined) throw noDriver('pg');
  const pool = new pg.Pool({ connectionString, connectionTimeoutMillis: CONNECT_MS, max: 2 });
  return { ...postgresInbox(pool), close: () => pool.end() };
}

/** As much of ioredis as is used. */
type Ioredis = new (
  url: string,
  options: {
    readonly lazyConnect: true;
    readonly retryStrategy: () => null;
    readonly connectTimeout: number;
  },
) => IoredisLike & {
  connect(): Promise<void>;
  disconnect(): void;
  on(event: 'error', hear: (error: Error) => void): void;
};

/** As much of node-redis as is used. */
interface NodeRedis {
  createClient(options: {
    readonly url: string;
    readonly socket: { readonly reconnectStrategy: false; readonly connectTimeout: number };
  }): NodeRedisLike & {
    connect(): Promise<unknown>;
    destroy(): void;
    on(event: 'error', hear: () => void): void;
  };
}

/** Opens the inbox of a Redis. */
export async function openRedis(url: string): Promise<OpenInbox> {
  const drivers = await importFromProject<{ ioredis: Ioredis; redis: NodeRedis }>(['ioredis', 'redis'], {
    why: 'An inbox in Redis needs its driver.',
  });
  if (drivers.ioredis !== undefined) return openByIoredis(url, drivers.ioredis);
  if (drivers.redis === undefined) throw noDriver('redis');
  const client = drivers.redis.createClient({
    url,
    socket: { reconnectStrategy: false, connectTimeout: CONNECT_MS },
  });
  client.on('error', () => undefined);
  await client.connect();
  return { ...redisInbox(fromNodeRedis(client)), close: () => client.destroy() };
}

async function openByIoredis(url: string, Redis: Ioredis): Promise<OpenInbox> {
  const client = new Redis(url, { lazyConnect: true, retryStrategy: () => null, connectTimeout: CONNECT_MS });
  let heard: Error | undefined;
  client.on('error', (error) => {
    heard = error;
  });
  // It rejects with "Connection is closed"; why, the event has said.
  await client.connect().catch((error: unknown) => {
    throw heard ?? error;
  });
  return { ...redisInbox(fromIoredis(client)), close: () => client.disconnect() };
}

function noDriver(name: string): Error {
  return usageError(`The package ${name} has no default export. Install it anew.`);
}
