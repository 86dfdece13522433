import { Redis } from 'ioredis';
import { fromIoredis, redisInbox } from 'stablehooks/inboxes/redis';
import { afterAll, beforeAll, test } from 'vitest';
import { inboxClockContract, inboxContract } from '../contracts/index.js';
import { startRedis } from '../services/redis.js';
import type { Service } from '../services/service.js';
import { describeWithRedis } from '../services/with-redis.js';
import { describeRedis } from './redis-contract.js';

describeRedis('ioredis', inboxContract, async ({ url }) => {
  const [first, second] = [new Redis(url), new Redis(url)];
  const end = () => Promise.all([first.quit(), second.quit()]);
  return { first: fromIoredis(first), second: fromIoredis(second), end };
});

/** The clock is that of the server, so the times that it has stored move instead. */
const MOVE = `
for _, key in ipairs(redis.call('KEYS', KEYS[1] .. '*')) do
  if redis.call('TYPE', key).ok == 'hash' then
    for _, field in ipairs({ 'receivedAt', 'updatedAt', 'dueAt', 'leaseUntil', 'leasedAt' }) do
      if redis.call('HEXISTS', key, field) == 1 then redis.call('HINCRBY', key, field, ARGV[1]) end
    end
  elseif redis.call('TYPE', key).ok == 'zset' then
    for _, id in ipairs(redis.call('ZRANGE', key, 0, -1)) do redis.call('ZINCRBY', key, ARGV[1], id) end
  end
end`;

describeWithRedis('Redis inbox whose clock is set back', () => {
  let server: Service;
  let clients: readonly [Redis, Redis];
  beforeAll(async () => {
    server = await startRedis();
    clients = [new Redis(server.url), new Redis(server.url)];
  });
  afterAll(async () => {
    await Promise.all(clients.map((client) => client.quit()));
    await server.stop();
  });

  for (const [index, { name, run }] of inboxClockContract.entries()) {
    test(name, async () => {
      const prefix = `clocked ${index}`;
      const [inbox, second] = clients.map((client) => redisInbox(fromIoredis(client), { prefix }));
      if (inbox && second)
        await run({ inbox, second, setBack: (ms) => clients[0].eval(MOVE, 1, `{${prefix}}`, ms) });
    });
  }
});
