/** How the Redis inbox fails, and that it recovers without a restart. */
import { Cluster, Redis } from 'ioredis';
import { createClient } from 'redis';
import { createReceiver, type Inbox } from 'stablehooks';
import { fromIoredis, fromNodeRedis, type RedisLike, redisInbox } from 'stablehooks/inboxes/redis';
import { expect, onTestFinished, test, vi } from 'vitest';
import { startProxy } from '../services/proxy.js';
import { startRedis, startRedisNode } from '../services/redis.js';
import type { Service } from '../services/service.js';
import { describeWithRedis } from '../services/with-redis.js';
import { silent, someEvent } from './claimed.js';

const events = Array.from({ length: 40 }, (_, index) => someEvent({ id: `evt_${index}` }));

async function open<Server extends Service>(start: () => Promise<Server>) {
  const server = await start();
  const redis = new Redis(server.url).on('error', () => undefined);
  onTestFinished(async () => {
    redis.disconnect();
    await server.stop();
  });
  return { server, redis };
}

/**
 * A receiver gives up a call that the client still sends from node to node. If the connection ends then, ioredis rejects an
 * ASKING of its own, which no caller can catch.
 */
function settling(redis: RedisLike) {
  const calls: Promise<unknown>[] = [];
  function track(call: Promise<unknown>) {
    calls.push(call);
    return call;
  }
  return {
    redis: {
      ...redis,
      eval: (...call: Parameters<RedisLike['eval']>) => track(redis.eval(...call)),
      evalsha: (...call: Parameters<RedisLike['evalsha']>) => track(redis.evalsha(...call)),
    },
    settled: () => Promise.allSettled(calls),
  };
}

function receive(inbox: Inbox) {
  const ran: string[] = [];
  const receiver = createReceiver({
    ...{ secret: 'x', inbox, logger: silent },
    handlers: { 'transfer.settled': ({ id }) => void ran.push(id) },
  });
  const kinds = async (list = events) => {
    const outcomes = await Promise.all(list.map((event) => receiver.handle(event, 'push')));
    return new Set(outcomes.map(({ kind }) => kind));
  };
  return { kinds, ran };
}

describeWithRedis('Redis inbox', () => {
  test('while a cluster moves its slot, no done event runs again and no poll state is empty', async () => {
    const [source, target] = [await open(startRedisNode), await open(startRedisNode)];
    await source.redis.cluster('ADDSLOTSRANGE', 0, 16_383);
    await source.redis.cluster('MEET', '127.0.0.1', target.server.port, target.server.bus);
    const isWhole = async ({ redis }: typeof source) => {
      const info = String(await redis.cluster('INFO'));
      return info.includes('cluster_state:ok') && info.includes('cluster_known_nodes:2');
    };
    await vi.waitFor(
      async () => expect([await isWhole(source), await isWhole(target)]).toEqual([true, true]),
      {
        timeout: 60_000,
      },
    );
    const cluster = new Cluster([{ host: '127.0.0.1', port: source.server.port }]);
    const { redis, settled } = settling(fromIoredis(cluster));
    onTestFinished(async () => {
      await settled();
      cluster.disconnect();
    });
    const inbox = redisInbox(redis);
    const { kinds, ran } = receive(inbox);
    expect(await kinds()).toEqual(new Set(['handled']));
    await inbox.writeNote('a note', 'text');

    const slot = await source.redis.cluster('KEYSLOT', '{stablehooks}');
    const idOf = async ({ redis }: typeof source) => String(await redis.cluster('MYID'));
    const [sourceId, targetId] = [await idOf(source), await idOf(target)];
    await target.redis.cluster('SETSLOT', slot, 'IMPORTING', sourceId);
    await source.redis.cluster('SETSLOT', slot, 'MIGRATING', targetId);
    for (const part of [20, 1_000]) {
      const keys = await source.redis.cluster('GETKEYSINSLOT', slot, part);
      await source.redis.migrate('127.0.0.1', target.server.port, '', 0, 5_000, 'KEYS', ...keys);
      expect(await kinds()).toEqual(new Set(['unavailable']));
      await expect(inbox.readNote('a note')).rejects.toThrow();
      await expect(inbox.takeDue({ limit: 9, visibilityTimeoutMs: 1, types: [] })).rejects.toThrow();
    }
    for (const { redis } of [target, source]) await redis.cluster('SETSLOT', slot, 'NODE', targetId);
    await vi.waitFor(async () => expect(await kinds()).toEqual(new Set(['duplicate'])), { timeout: 60_000 });
    expect(await inbox.readNote('a note')).toBe('text');
    expect(ran).toHaveLength(events.length);
  });

  const CLIENTS = {
    ioredis: async (url: string) => {
      const client = new Redis(url, { maxRetriesPerRequest: 1 }).on('error', () => undefined);
      onTestFinished(() => client.disconnect());
      return fromIoredis(client);
    },
    'node-redis': async (url: string) => {
      const client = createClient({ url, disableOfflineQueue: true }).on('error', () => undefined);
      await client.connect();
      onTestFinished(() => client.destroy());
      return fromNodeRedis(client);
    },
  };
  test.each(Object.entries(CLIENTS))(
    'over %s, a connection to a server that became a replica is closed, and the next one reaches the new primary',
    async (_name, connect) => {
      const [old, primary] = [await open(startRedis), await open(startRedis)];
      const proxy = await startProxy(old.server.port);
      const inbox = redisInbox(await connect(`redis://127.0.0.1:${proxy.port}`));
      const { kinds } = receive(inbox);
      expect(await kinds(events.slice(0, 1))).toEqual(new Set(['handled']));
      await old.redis.replicaof('127.0.0.1', primary.server.port);
      proxy.target = primary.server.port;
      expect(await kinds(events.slice(1, 2))).toEqual(new Set(['unavailable']));
      await vi.waitFor(async () => expect(await kinds(events.slice(2, 3))).toEqual(new Set(['handled'])), {
        timeout: 60_000,
      });
    },
  );
});
