import { inspect } from 'node:util';
import { Redis as Upstash } from '@upstash/redis';
import { Redis } from 'ioredis';
import { createClient } from 'redis';
import { fromIoredis, fromNodeRedis, type RedisLike, redisInbox } from 'stablehooks/inboxes/redis';
import { expect, onTestFinished, test } from 'vitest';
import { ownRedis } from '../services/own-redis.js';
import { startUpstash } from '../services/upstash.js';
import { describeWithRedis } from '../services/with-redis.js';
import { someEvent } from './claimed.js';
import { expectOutageSurvived } from './outage.js';

describeWithRedis('Redis inbox', () => {
  const own = ownRedis();

  const clients: Readonly<Record<string, () => Promise<{ like: RedisLike; end(): unknown }>>> = {
    async ioredis() {
      const client = new Redis(own.server.url, { maxRetriesPerRequest: 1 }).on('error', () => undefined);
      return { like: fromIoredis(client), end: () => client.quit() };
    },
    async 'node-redis'() {
      const client = createClient({ url: own.server.url, disableOfflineQueue: true }).on(
        'error',
        () => undefined,
      );
      await client.connect();
      return { like: fromNodeRedis(client), end: () => client.close() };
    },
  };

  test.each(Object.keys(clients))(
    'handle is unavailable over %s while Redis is down, and done events are still done afterwards',
    async (name) => {
      const client = await clients[name]?.();
      if (client === undefined) throw new Error(`${name} is not a client`);
      await expectOutageSurvived(redisInbox(client.like, { prefix: name }), own.server);
      await client.end();
    },
  );

  test.each(['ioredis', 'Upstash'])(
    'the error of a command that fails over %s does not contain the payload',
    async (name) => {
      const upstash = await startUpstash(own.redis);
      onTestFinished(() => upstash.stop());
      const like =
        name === 'ioredis'
          ? fromIoredis(own.redis)
          : new Upstash({
              url: upstash.url,
              token: 'x',
              retry: false,
              enableTelemetry: false,
              enableAutoPipelining: false,
            });
      const inbox = redisInbox(like, { prefix: 'full' });
      const event = { ...someEvent(), payload: { holder: 'Ada Lovelace' } };
      const claim = async () => inbox.claim(event, { leaseMs: 1_000, origin: 'push' });
      await own.redis.config('SET', 'maxmemory', '1');
      onTestFinished(async () => void (await own.redis.config('SET', 'maxmemory', '0')));
      // The error must be redacted whether the server has the script or not.
      for (let attempt = 0; attempt < 2; attempt++) {
        const error = await claim().catch((thrown) => thrown);
        expect(String(error)).toMatch(/OOM|maxmemory/);
        expect(inspect(error, { depth: 9 })).not.toContain('Lovelace');
      }
    },
  );

  test('the Redis inbox sends a script again when the server has lost it', async () => {
    const inbox = redisInbox(fromIoredis(own.redis), { prefix: 'forgotten' });
    expect((await inbox.claim(someEvent(), { leaseMs: 1_000, origin: 'push' })).state).toBe('claimed');
    await own.redis.script('FLUSH');
    expect((await inbox.claim(someEvent(), { leaseMs: 1_000, origin: 'push' })).state).toBe('claimed');
  });

  test('every key of the Redis inbox begins with the hash tag of its prefix', async () => {
    const inbox = redisInbox(fromIoredis(own.redis), { prefix: 'tagged' });
    const event = { ...someEvent(), id: 'evt}{other}' };
    await inbox.record([event], { dueInMs: 0, origin: 'pull' });
    await inbox.writeNote('a note', 'text');
    const keys = await own.redis.keys('*tagged*');
    expect(keys.length).toBeGreaterThan(3);
    expect(keys.filter((key) => !key.startsWith('{tagged}:'))).toEqual([]);
  });

  test('the Redis inbox refuses a server that evicts keys, until its maxmemory-policy is noeviction', async () => {
    const inbox = redisInbox(fromIoredis(own.redis), { prefix: 'policy' });
    onTestFinished(async () => void (await own.redis.config('SET', 'maxmemory-policy', 'noeviction')));
    await own.redis.config('SET', 'maxmemory-policy', 'allkeys-lru');
    for (const call of [
      () => inbox.count(),
      () => inbox.record([someEvent()], { dueInMs: 0, origin: 'pull' }),
    ]) {
      await expect(call()).rejects.toMatchObject({
        code: 'ERR_CONFIG_INVALID',
        message: expect.stringContaining('allkeys-lru'),
      });
    }
    await own.redis.config('SET', 'maxmemory-policy', 'noeviction');
    await expect(inbox.record([someEvent()], { dueInMs: 0, origin: 'pull' })).resolves.toEqual(['new']);
  });

  test('the Redis inbox refuses a server that began to evict keys, within a minute', async () => {
    const clock = { elapsed: 0 };
    const inbox = redisInbox(fromIoredis(own.redis), {
      prefix: 'later',
      runtime: { elapsed: () => clock.elapsed },
    });
    onTestFinished(async () => void (await own.redis.config('SET', 'maxmemory-policy', 'noeviction')));
    await inbox.record([someEvent()], { dueInMs: 0, origin: 'pull' });
    await own.redis.config('SET', 'maxmemory-policy', 'volatile-ttl');
    clock.elapsed = 60_000;
    await expect(inbox.claim(someEvent(), { leaseMs: 1_000, origin: 'push' })).rejects.toThrow(
      'volatile-ttl',
    );
  });

  test('the Redis inbox works over a server that forbids INFO', async () => {
    onTestFinished(async () => void (await own.redis.acl('SETUSER', 'default', '+info')));
    await own.redis.acl('SETUSER', 'default', '-info');
    const inbox = redisInbox(fromIoredis(own.redis), { prefix: 'forbidden' });
    await expect(inbox.record([someEvent()], { dueInMs: 0, origin: 'pull' })).resolves.toEqual(['new']);
  });
});
