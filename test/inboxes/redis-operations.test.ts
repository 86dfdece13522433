import { inspect } from 'node:util';
import { Redis as Upstash } from '@upstash/redis';
import { Redis } from 'ioredis';
import { createClient } from 'redis';
import { fromIoredis, fromNodeRedis, type RedisLike, redisInbox } from 'stablehooks/inboxes/redis';
import { expect, onTestFinished, test, vi } from 'vitest';
import { ownRedis } from '../services/own-redis.js';
import { startUpstash } from '../services/upstash.js';
import { describeWithRedis } from '../services/with-redis.js';
import { claimed, someEvent } from './claimed.js';
import { expectOutageSurvived } from './outage.js';

/** The clock of the server, epoch ms. */
async function clockOf(redis: Redis): Promise<number> {
  const [seconds, micros] = await redis.time();
  return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
}

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
    'the error of a command that fails over %s does not contain the payload, whose words decide nothing',
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
      const event = { ...someEvent(), payload: { holder: 'Ada Lovelace', memo: 'NOSCRIPT' } };
      const sendScript = vi.spyOn(like, 'eval');
      const claim = async () => inbox.claim(event, { leaseMs: 1_000, origin: 'push' });
      await own.redis.config('SET', 'maxmemory', '1');
      onTestFinished(async () => void (await own.redis.config('SET', 'maxmemory', '0')));
      // The error must be redacted whether the server has the script or not.
      for (let attempt = 0; attempt < 2; attempt++) {
        const error = await claim().catch((thrown) => thrown);
        expect(String(error)).toMatch(/OOM|maxmemory/);
        expect(inspect(error, { depth: 9 })).not.toContain('Lovelace');
        if (attempt === 1) expect(sendScript).not.toHaveBeenCalled();
        sendScript.mockClear();
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

  test('an event that ran again after it was read is neither discarded nor requeued for its former error', async () => {
    const prefix = 'changed';
    const redis = fromIoredis(own.redis);
    const other = redisInbox(redis, { prefix });
    for (const work of ['discard', 'requeue'] as const) {
      let changed = 0;
      // Before each script in turn: one of them is between the read and the change.
      for (let turn = 1; turn <= 6; turn += 1) {
        const event = someEvent();
        await other.fail(await claimed(other, event), { retryAfterMs: null, error: 'the account is closed' });
        const failedAt = (await other.find(event.id))?.updatedAt ?? 0;
        await vi.waitFor(async () => expect(await clockOf(own.redis)).toBeGreaterThan(failedAt), {
          timeout: 60_000,
        });
        let hasRunAgain = false;
        const runAgain = async () => {
          hasRunAgain = (await other.requeue({ ids: [event.id], error: 'closed' })) === 1;
          if (!hasRunAgain) return;
          await other.fail(await claimed(other, event), {
            retryAfterMs: 3_600_000,
            error: 'the bank is down',
          });
        };
        let scripts = 0;
        const inbox = redisInbox(
          {
            ...redis,
            async evalsha(...call) {
              scripts += 1;
              if (scripts === turn) await runAgain();
              return redis.evalsha(...call);
            },
          },
          { prefix },
        );
        const filter = { ids: [event.id], error: 'closed' };
        const count =
          work === 'discard'
            ? await inbox.discard({ ...filter, by: 'ana', reason: 'booked' })
            : await inbox.requeue(filter);
        const record = await other.find(event.id);
        expect(count).toBe(hasRunAgain ? 0 : 1);
        if (hasRunAgain) expect(record).toMatchObject({ state: 'failed', lastError: 'the bank is down' });
        else expect(record?.state).toBe(work === 'discard' ? 'done' : 'received');
        changed += count;
      }
      expect(changed).toBeGreaterThan(0);
    }
  });

  test('keys of a newer release are refused with what to do, within a minute after it wrote them', async () => {
    const clock = { elapsed: 0 };
    const runtime = { elapsed: () => clock.elapsed };
    const inbox = redisInbox(fromIoredis(own.redis), { prefix: 'released', runtime });
    await inbox.record([someEvent()], { dueInMs: 0, origin: 'pull' });
    await own.redis.set('{released}:version', '2');
    clock.elapsed = 60_000;
    await expect(inbox.record([someEvent()], { dueInMs: 0, origin: 'pull' })).rejects.toMatchObject({
      code: 'ERR_CONFIG_INVALID',
      message: expect.stringMatching(/newer release .* version 2, .* version 1\. Upgrade stablehooks/),
    });
    await own.redis.set('{released}:version', '1');
    expect(await inbox.record([someEvent()], { dueInMs: 0, origin: 'pull' })).toEqual(['new']);
  });

  test('the Redis inbox works over a server that forbids INFO', async () => {
    onTestFinished(async () => void (await own.redis.acl('SETUSER', 'default', '+info')));
    await own.redis.acl('SETUSER', 'default', '-info');
    const inbox = redisInbox(fromIoredis(own.redis), { prefix: 'forbidden' });
    await expect(inbox.record([someEvent()], { dueInMs: 0, origin: 'pull' })).resolves.toEqual(['new']);
  });
});
