import { Redis } from 'ioredis';
import { afterAll, beforeAll } from 'vitest';
import { startRedis } from './redis.js';
import type { Service } from './service.js';

interface OwnRedis {
  server: Service;
  redis: Redis;
}

/** Starts a Redis and connects a client to it, before the tests of the suite that calls it; ends both after them. */
export function ownRedis(): Readonly<OwnRedis> {
  const own = {} as OwnRedis;
  beforeAll(async () => {
    own.server = await startRedis();
    own.redis = new Redis(own.server.url).on('error', () => undefined);
  });
  afterAll(async () => {
    await own.redis.quit();
    await own.server.stop();
  });
  return own;
}
