import { POLL_NOTE } from 'stablehooks/catch-up';
import {
  fromIoredis,
  fromNodeRedis,
  type IoredisLike,
  type NodeRedisLike,
  type RedisLike,
  redisInbox,
} from 'stablehooks/inboxes/redis';
import { inTime } from '../../in-time.js';
import { usageError } from '../errors.js';
import { toPlain } from '../output.js';
import { namePlace } from '../place.js';
import {
  ANSWER_TIMEOUT_MS,
  CONNECT_TIMEOUT_MS,
  closeOnError,
  importFromProject,
  type Opened,
  type OpenOptions,
} from './opening.js';

type Ioredis = new (
  url: string,
  options: {
    readonly lazyConnect: true;
    readonly retryStrategy: () => null;
    readonly connectTimeout: number;
  },
) => IoredisLike & {
  connect(): Promise<void>;
  select(database: string): Promise<unknown>;
  disconnect(): void;
  on(event: 'error', listener: (error: Error) => void): void;
};

interface NodeRedis {
  createClient(options: {
    readonly url: string;
    readonly socket: { readonly reconnectStrategy: false; readonly connectTimeout: number };
  }): NodeRedisLike & {
    connect(): Promise<unknown>;
    select(database: string): Promise<unknown>;
    destroy(): void;
    on(event: 'error', listener: () => void): void;
  };
}

interface RedisClient {
  readonly redis: RedisLike;
  connect(): Promise<unknown>;
  select(database: string): Promise<unknown>;
  close(): void;
}

export async function openRedis(
  url: string,
  { unused, namespaces: [prefix], name }: OpenOptions,
  which: string,
): Promise<Opened> {
  const server = new URL(url);
  const { pathname, searchParams } = server;
  const path = /^(?:\/(\d*))?$/.exec(pathname);
  if (path === null || searchParams.has('db')) {
    throw usageError(`${which}: write the Redis database as a number after the host, such as /0.`);
  }
  const [, database = ''] = path;
  // The drivers handle a missing database differently. For example, ioredis continues with database 0.
  server.pathname = '';
  const { redis, connect, select, close } = await createRedisClient(server.href);
  // Rejects an invalid prefix before a connection is open.
  const inbox = redisInbox(
    {
      eval: (...call) => inTime(redis.eval(...call), ANSWER_TIMEOUT_MS, noAnswer),
      evalsha: (...call) => inTime(redis.evalsha(...call), ANSWER_TIMEOUT_MS, noAnswer),
    },
    { prefix },
  );
  const enter = async () => {
    await connect();
    if (Number(database) === 0) return;
    await select(database).catch((error: unknown) => {
      if (!(error instanceof Error && error.message.startsWith('ERR '))) throw error;
      throw usageError(`${which}: this Redis has no database ${database}. Check the number after the host.`, {
        cause: error,
      });
    });
  };
  const check = async () => {
    await inTime(enter(), CONNECT_TIMEOUT_MS, noAnswer);
    if (!unused) await assertIsUsed(inbox, { prefix, name });
  };
  await closeOnError(check(), close);
  return { ...inbox, namespace: prefix, close };
}

const noAnswer = () => Object.assign(new Error('no response'), { code: 'ETIMEDOUT' });

async function createRedisClient(url: string): Promise<RedisClient> {
  const { name, driver } = await importFromProject<Ioredis | NodeRedis>(
    ['ioredis', 'redis'],
    'A Redis inbox needs a driver.',
  );
  if (name === 'ioredis') return byIoredis(driver as Ioredis, url);
  const client = (driver as NodeRedis).createClient({
    url,
    socket: { reconnectStrategy: false, connectTimeout: CONNECT_TIMEOUT_MS },
  });
  client.on('error', () => undefined);
  return {
    redis: fromNodeRedis(client),
    connect: () => client.connect(),
    select: (database) => client.select(database),
    close: () => client.destroy(),
  };
}

function byIoredis(Redis: Ioredis, url: string): RedisClient {
  const client = new Redis(url, {
    lazyConnect: true,
    retryStrategy: () => null,
    connectTimeout: CONNECT_TIMEOUT_MS,
  });
  let emitted: Error | undefined;
  client.on('error', (error) => {
    emitted = error;
  });
  return {
    redis: fromIoredis(client),
    // The promise rejects only with "Connection is closed", but the event contains the cause.
    connect: () =>
      client.connect().catch((error: unknown) => {
        throw emitted ?? error;
      }),
    select: (database) => client.select(database),
    close: () => client.disconnect(),
  };
}

/** A wrong database number or prefix looks like an empty inbox. */
async function assertIsUsed(
  inbox: Pick<Opened, 'count' | 'readNote'>,
  { prefix, name }: { readonly prefix: string; readonly name: string },
): Promise<void> {
  const counts = await inbox.count();
  const note = await inbox.readNote(POLL_NOTE);
  if (note !== null || counts.some(({ count }) => count > 0)) return;
  throw usageError(
    `${namePlace(name)}: this Redis has no inbox with the prefix ${toPlain(prefix)}, or that inbox has not received any event yet. Check the URL, including the database number, and pass the \`prefix\` of your app's redisInbox as --namespace.`,
  );
}
