import { Redis as Upstash } from '@upstash/redis';
import { Cluster, Redis } from 'ioredis';
import { createClient, RESP_TYPES } from 'redis';
import { fromIoredis, fromNodeRedis } from 'stablehooks/inboxes/redis';
import { inboxContract } from '../contracts/index.js';
import { driverContract } from '../driver-contract.js';
import { startRedisNode } from '../services/redis.js';
import { startUpstash } from '../services/upstash.js';
import { describeRedis } from './redis-contract.js';

describeRedis(
  'ioredis on a cluster',
  inboxContract,
  async ({ url, port }) => {
    const admin = new Redis(url);
    await admin.cluster('ADDSLOTSRANGE', 0, 16_383);
    while (!String(await admin.cluster('INFO')).includes('cluster_state:ok')) await admin.ping();
    await admin.quit();
    const seeds = [{ host: '127.0.0.1', port }];
    const [first, second] = [new Cluster(seeds), new Cluster(seeds)];
    const end = () => Promise.all([first.quit(), second.quit()]);
    return { first: fromIoredis(first), second: fromIoredis(second), end };
  },
  startRedisNode,
);

describeRedis('node-redis', driverContract, async ({ url }) => {
  const [first, second] = [createClient({ url }), createClient({ url })];
  await Promise.all([first.connect(), second.connect()]);
  const end = () => Promise.all([first.close(), second.close()]);
  return { first: fromNodeRedis(first), second: fromNodeRedis(second), end };
});

describeRedis('node-redis with a typeMapping to Buffers', driverContract, async ({ url }) => {
  const commandOptions = { typeMapping: { [RESP_TYPES.BLOB_STRING]: Buffer } };
  const [first, second] = [createClient({ url, commandOptions }), createClient({ url, commandOptions })];
  await Promise.all([first.connect(), second.connect()]);
  const end = () => Promise.all([first.close(), second.close()]);
  return { first: fromNodeRedis(first), second: fromNodeRedis(second), end };
});

describeRedis('@upstash/redis', driverContract, async ({ url }) => {
  const redis = new Redis(url);
  const bridge = await startUpstash(redis);
  const open = () => new Upstash({ url: bridge.url, token: 'local', enableTelemetry: false });
  const end = () => Promise.all([bridge.stop(), redis.quit()]);
  return { first: open(), second: open(), end };
});
