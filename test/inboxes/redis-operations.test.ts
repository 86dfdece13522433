import { randomUUID } from 'node:crypto';
import { inspect } from 'node:util';
import { Redis as Upstash } from '@upstash/redis';
import { Redis } from 'ioredis';
import { createClient, RESP_TYPES } from 'redis';
import { fromIoredis, fromNodeRedis, type RedisLike, redisInbox } from 'stablehooks/inboxes/redis';
import { exampleEvent } from 'stablehooks/testing';
import { describe, expect, onTestFinished, test } from 'vitest';
import { ownRedis } from '../services/own-redis.js';
import { startUpstash } from '../services/upstash.js';
import { describeWithRedis } from '../services/with-redis.js';
import { expectOutageSurvived } from './outage.js';

const TRACEPARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';

const someEvent = () => ({ ...exampleEvent('transfer.settled'), id: `evt_${randomUUID()}` });

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
      await own.redis.config('SET', 'maxmemory', '1');
      onTestFinished(async () => void (await own.redis.config('SET', 'maxmemory', '0')));
      // The error must be redacted whether the server has the script or not.
      for (let attempt = 0; attempt < 2; attempt++) {
        const error = await inbox.claim(event, { leaseMs: 1_000, origin: 'push' }).catch((thrown) => thrown);
        expect(String(error)).toMatch(/OOM|maxmemory/);
        expect(inspect(error, { depth: 9 })).not.toContain('Lovelace');
      }
    },
  );

  test('an inbox over node-redis answers the same if the client maps strings to Buffers', async () => {
    const typeMapping = { [RESP_TYPES.BLOB_STRING]: Buffer };
    const client = createClient({ url: own.server.url, commandOptions: { typeMapping } });
    await client.connect();
    onTestFinished(() => void client.close());
    const inbox = redisInbox(fromNodeRedis(client), { prefix: 'buffers' });
    const event = { ...someEvent(), payload: { holder: 'Zoë' } };
    const claim = await inbox.claim(event, { leaseMs: 60_000, origin: 'push' });
    expect(claim).toMatchObject({ state: 'claimed', lease: { id: event.id, attempt: 1 } });
    if (claim.state === 'claimed') expect(await inbox.complete(claim.lease)).toBe(true);
    expect(await inbox.claim(event, { leaseMs: 60_000, origin: 'push' })).toEqual({ state: 'done' });
    expect(await inbox.find(event.id)).toMatchObject({ state: 'done', attempts: 1, event });
    expect(
      await inbox.takeDue({ limit: 9, visibilityTimeoutMs: 60_000, types: ['transfer.settled'] }),
    ).toEqual([]);
  });

  test('an inbox over a client whose replies are no text rejects, and takes nothing for done', async () => {
    for (const reply of [undefined, null, 91, {}, '{}', new Uint8Array([123, 125])]) {
      const answer = () => Promise.resolve(reply);
      const inbox = redisInbox({ eval: answer, evalsha: answer });
      await expect(inbox.claim(someEvent(), { leaseMs: 60_000, origin: 'push' })).rejects.toThrow(
        'returns replies as strings',
      );
      await expect(inbox.complete({ id: 'a', token: 'b', attempt: 1 })).rejects.toThrow(TypeError);
    }
  });

  test('the Redis inbox sends a script again when the server has lost it', async () => {
    const inbox = redisInbox(fromIoredis(own.redis), { prefix: 'forgotten' });
    expect((await inbox.claim(someEvent(), { leaseMs: 1_000, origin: 'push' })).state).toBe('claimed');
    await own.redis.script('FLUSH');
    expect((await inbox.claim(someEvent(), { leaseMs: 1_000, origin: 'push' })).state).toBe('claimed');
  });

  test('prune of 2,500 events runs several scripts and keeps every id', async () => {
    const inbox = redisInbox(fromIoredis(own.redis), { prefix: 'pruned' });
    const events = Array.from({ length: 2_500 }, someEvent);
    for (const event of events) {
      const claim = await inbox.claim(event, { leaseMs: 60_000, origin: 'push' });
      if (claim.state === 'claimed') await inbox.complete(claim.lease);
    }
    expect(await inbox.prune({ olderThanMs: 0 })).toBe(2_500);
    expect(await inbox.prune({ olderThanMs: 0 })).toBe(0);
    expect((await inbox.count()).find(({ state }) => state === 'done')?.count).toBe(2_500);
  });

  test('events that the first release wrote go on in every state', async () => {
    const base = '{first}:';
    const json = (id: string) => JSON.stringify({ ...exampleEvent('transfer.settled'), id });
    const written = [
      { id: 'received', state: 'received', attempts: 0, dueAt: 9e15 },
      { id: 'leased', state: 'leased', attempts: 1, dueAt: 9e15, token: 'token' },
      { id: 'lapsed', state: 'leased', attempts: 2, dueAt: 200, token: 'token' },
      { id: 'failed', state: 'failed', attempts: 1, dueAt: 9e15, lastError: 'no' },
      { id: 'done', state: 'done', attempts: 1 },
      { id: 'dead', state: 'dead', attempts: 12, lastError: 'no' },
      { id: 'parked', state: 'parked', attempts: 0 },
    ];
    for (const { id, state, ...fields } of written) {
      const all = {
        type: 'transfer.settled',
        source: 'push',
        receivedAt: 100,
        updatedAt: 100,
        state,
        ...fields,
      };
      await own.redis.hset(`${base}event:${id}`, all);
      await own.redis.set(`${base}json:${id}`, json(id));
      await own.redis.zadd(`${base}in:${state}`, 100, id);
      await own.redis.zadd(`${base}since:${state}`, 100, id);
      if (fields.dueAt !== undefined) await own.redis.zadd(`${base}due`, fields.dueAt, id);
      if (state === 'parked') await own.redis.zadd(`${base}parked:transfer.settled`, 100, id);
      if (state === 'done') await own.redis.zadd(`${base}whole`, 100, id);
    }
    await own.redis.hset(`${base}poll`, { holder: 'a', leaseUntil: 0, horizon: 9, largest: 70 });

    const inbox = redisInbox(fromIoredis(own.redis), { prefix: 'first' });
    expect((await inbox.count()).map(({ count }) => count)).toEqual([1, 2, 1, 1, 1, 1]);
    expect(await inbox.find('failed')).toMatchObject({ lastError: 'no', history: [] });
    const poll = { since: null, watermark: 9, gaps: [], limit: 0, oldest: null };
    expect(await inbox.pollState()).toEqual(poll);
    expect(await inbox.acquirePoll({ holder: 'b', leaseMs: 0 })).toEqual(poll);
    const claim = async (id: string) =>
      (await inbox.claim(JSON.parse(json(id)), { leaseMs: 60_000, origin: 'push' })).state;
    for (const id of ['done', 'dead', 'failed', 'leased']) expect(await claim(id)).toBe(id);
    const taken = await inbox.takeDue({ limit: 9, visibilityTimeoutMs: 0, types: ['transfer.settled'] });
    expect(taken).toEqual([{ event: JSON.parse(json('lapsed')), json: json('lapsed') }]);
    expect((await inbox.find('lapsed'))?.history).toEqual([
      { attempt: 2, startedAt: 100, endedAt: 200, result: 'lapsed', error: null },
    ]);
    for (const id of ['received', 'parked', 'lapsed']) expect(await claim(id)).toBe('claimed');
    expect(await inbox.requeue('dead')).toBe(true);
    expect(await inbox.complete({ id: 'leased', token: 'token', attempt: 1 })).toBe(true);
    expect(await inbox.prune({ olderThanMs: 0 })).toBe(2);
  });

  test('events of a release without trace contexts have none, and what such a release claims, records and completes keeps that of this one', async () => {
    const prefix = randomUUID();
    const base = `{${prefix}}:`;
    const inbox = redisInbox(fromIoredis(own.redis), { prefix });
    const how = { leaseMs: 60_000, origin: 'push' } as const;
    const [old, fresh] = [someEvent(), someEvent()];
    // What its record writes.
    const fields = { type: old.type, source: 'pull', attempts: 0, receivedAt: 100, updatedAt: 100 };
    await own.redis.hset(`${base}event:${old.id}`, { ...fields, state: 'received', dueAt: 100 });
    await own.redis.set(`${base}json:${old.id}`, JSON.stringify(old));
    for (const set of ['in:received', 'since:received', 'due'])
      await own.redis.zadd(`${base}${set}`, 100, old.id);
    expect((await inbox.find(old.id))?.traceparent).toBeNull();
    const claim = await inbox.claim(old, { ...how, traceparent: TRACEPARENT });
    expect(claim).toMatchObject({ state: 'claimed', lease: { attempt: 1, traceparent: undefined } });
    expect((await inbox.find(old.id))?.traceparent).toBeNull();

    await inbox.record([fresh], { dueInMs: 0, origin: 'push', traceparent: TRACEPARENT });
    // What its claim writes, and then its complete.
    const lease = { state: 'leased', updatedAt: 100, dueAt: 100, token: 'token', attempts: 1 };
    await own.redis.hset(`${base}event:${fresh.id}`, lease);
    await own.redis.zrem(`${base}in:received`, fresh.id);
    const again = await inbox.claim(fresh, { ...how, traceparent: 'another' });
    expect(again).toMatchObject({ state: 'claimed', lease: { attempt: 2, traceparent: TRACEPARENT } });
    await own.redis.hset(`${base}event:${fresh.id}`, { state: 'done', updatedAt: 100 });
    await own.redis.hdel(`${base}event:${fresh.id}`, 'dueAt', 'token', 'lastError', 'turn');
    expect(await inbox.find(fresh.id)).toMatchObject({ state: 'done', traceparent: TRACEPARENT });
  });

  test('without a trace context the hash of an event has no field for it', async () => {
    const prefix = randomUUID();
    const inbox = redisInbox(fromIoredis(own.redis), { prefix });
    const [claimed, recorded] = [someEvent(), someEvent()];
    await inbox.claim(claimed, { leaseMs: 60_000, origin: 'push' });
    await inbox.record([recorded], { dueInMs: 0, origin: 'pull' });
    for (const { id } of [claimed, recorded]) {
      expect(await own.redis.hkeys(`{${prefix}}:event:${id}`)).not.toContain('traceparent');
    }
  });

  describe("the poller's state of the previous release", () => {
    const OLD = { since: 5, watermark: 9, gaps: [], limit: 0, oldest: null };

    /** The hash as the previous release wrote it, and an inbox over it. */
    async function openPrevious() {
      const prefix = randomUUID();
      const key = `{${prefix}}:poll`;
      await own.redis.hset(key, { holder: 'old', leaseUntil: 0, since: 5, horizon: 9, largest: 70 });
      return { key, inbox: redisInbox(fromIoredis(own.redis), { prefix }) };
    }

    test('is what ten processes of this release find, and one of them gets the lease', async () => {
      const { inbox } = await openPrevious();
      const answers = await Promise.all(
        Array.from({ length: 10 }, (_, index) => inbox.acquirePoll({ holder: `${index}`, leaseMs: 60_000 })),
      );
      expect(answers.filter((answer) => answer !== null)).toEqual([OLD]);
      expect(await inbox.pollState()).toEqual(OLD);
    });

    test('is replaced by the first save, which removes the old fields', async () => {
      const { inbox, key } = await openPrevious();
      await inbox.acquirePoll({ holder: 'new', leaseMs: 60_000 });
      expect(await own.redis.hget(key, 'horizon')).toBe('9');
      const state = { ...OLD, watermark: null, limit: 50 };
      expect(await inbox.savePoll(state, { holder: 'new', leaseMs: 60_000 })).toBe(true);
      expect(await inbox.pollState()).toEqual(state);
      expect((await own.redis.hkeys(key)).sort()).toEqual(['holder', 'leaseUntil', 'state']);
    });

    test('does not return when a process of the previous release saves it once more', async () => {
      const { inbox, key } = await openPrevious();
      await inbox.acquirePoll({ holder: 'new', leaseMs: 0 });
      const state = { ...OLD, watermark: 20, limit: 50 };
      await inbox.savePoll(state, { holder: 'new', leaseMs: 0 });
      // What its savePoll writes, under its lease.
      await own.redis.hset(key, { holder: 'old', leaseUntil: 0, since: 30, horizon: 40, largest: 1 });
      expect(await inbox.pollState()).toEqual(state);
      expect(await inbox.acquirePoll({ holder: 'new', leaseMs: 0 })).toEqual(state);
      await inbox.savePoll(state, { holder: 'new', leaseMs: 0 });
      expect((await own.redis.hkeys(key)).sort()).toEqual(['holder', 'leaseUntil', 'state']);
    });
  });

  test('the keys of a pruned event are its hash and its places in the sorted sets', async () => {
    const inbox = redisInbox(fromIoredis(own.redis), { prefix: 'small' });
    for (const { id } of [someEvent(), someEvent()]) {
      const claim = await inbox.claim({ ...someEvent(), id }, { leaseMs: 60_000, origin: 'push' });
      if (claim.state === 'claimed') await inbox.complete(claim.lease);
    }
    await inbox.prune({ olderThanMs: 0 });
    const keys = (await own.redis.keys('{small}:*')).map((key) => key.replace(/evt_.*/, '…'));
    expect(keys.sort()).toEqual(
      ['event:…', 'event:…', 'in:done', 'since:done'].map((key) => `{small}:${key}`),
    );
  });

  test('an event that is done, dead or parked has no place among those that are due, nor a token', async () => {
    const inbox = redisInbox(fromIoredis(own.redis), { prefix: 'settled' });
    const [done, dead, parked] = [someEvent(), someEvent(), someEvent()];
    await inbox.record([done, dead], { dueInMs: 0, origin: 'pull' });
    await inbox.record([parked], { dueInMs: null, origin: 'pull' });
    for (const { id } of [done, dead]) {
      const claim = await inbox.claim({ ...someEvent(), id }, { leaseMs: 60_000, origin: 'push', key: 'a' });
      if (claim.state !== 'claimed') throw new Error(claim.state);
      if (id === done.id) await inbox.complete(claim.lease);
      else await inbox.fail(claim.lease, { retryAfterMs: null, error: 'no' });
      expect(await own.redis.hmget(`{settled}:event:${id}`, 'token', 'dueAt')).toEqual([null, null]);
    }
    expect((await own.redis.zrange('{settled}:due', '0', '-1')).filter((id) => id !== '')).toEqual([]);
    expect(
      (await own.redis.keys('{settled}:*')).filter((key) => /:(?:holder|waiting|due):/.test(key)),
    ).toEqual([]);
  });

  test('every key of the Redis inbox begins with the hash tag of its prefix', async () => {
    const inbox = redisInbox(fromIoredis(own.redis), { prefix: 'tagged' });
    const event = { ...someEvent(), id: 'evt}{other}' };
    await inbox.record([event], { dueInMs: 0, origin: 'pull' });
    await inbox.acquirePoll({ holder: 'a', leaseMs: 1_000 });
    const keys = await own.redis.keys('*tagged*');
    expect(keys.length).toBeGreaterThan(3);
    expect(keys.filter((key) => !key.startsWith('{tagged}:'))).toEqual([]);
  });

  test.each(['', 'a{b', 'a}b'])('redisInbox refuses the prefix %j', (prefix) => {
    expect(() => redisInbox(fromIoredis(own.redis), { prefix })).toThrow('`prefix` must be');
  });

  test('the Redis inbox is durable unless the option durable is false', () => {
    expect(redisInbox(fromIoredis(own.redis)).durable).toBe(true);
    expect(redisInbox(fromIoredis(own.redis), { durable: false }).durable).toBe(false);
  });
});
