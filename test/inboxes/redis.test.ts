import { Redis as Upstash } from '@upstash/redis';
import { Cluster, Redis } from 'ioredis';
import { createClient } from 'redis';
import { inboxContract } from 'stablehooks/conformance';
import { fromIoredis, fromNodeRedis, type RedisLike, redisInbox } from 'stablehooks/inboxes/redis';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { recorded } from '../compat/recorded.js';
import { startRedis } from '../services/redis.js';
import type { Service } from '../services/service.js';
import { startUpstash } from '../services/upstash.js';
import { describeWithRedis } from '../services/with-redis.js';

/** Two connections to one server. */
interface Connections {
  readonly first: RedisLike;
  readonly second: RedisLike;
  end(): Promise<unknown>;
}

const clients: Readonly<Record<string, (url: string) => Promise<Connections>>> = {
  async ioredis(url) {
    const [first, second] = [new Redis(url), new Redis(url)];
    const end = () => Promise.all([first.quit(), second.quit()]);
    return { first: fromIoredis(first), second: fromIoredis(second), end };
  },
  async 'ioredis on a cluster'() {
    const node = await startRedis(['--cluster-enabled', 'yes', '--cluster-announce-ip', '127.0.0.1']);
    const admin = new Redis(node.url);
    await admin.cluster('ADDSLOTSRANGE', 0, 16_383);
    while (!String(await admin.cluster('INFO')).includes('cluster_state:ok')) await admin.ping();
    await admin.quit();
    const seeds = [{ host: '127.0.0.1', port: node.port }];
    const [first, second] = [new Cluster(seeds), new Cluster(seeds)];
    const end = async () => {
      await Promise.all([first.quit(), second.quit()]);
      await node.stop();
    };
    return { first: fromIoredis(first), second: fromIoredis(second), end };
  },
  async 'node-redis'(url) {
    const [first, second] = [createClient({ url }), createClient({ url })];
    await Promise.all([first.connect(), second.connect()]);
    const end = () => Promise.all([first.close(), second.close()]);
    return { first: fromNodeRedis(first), second: fromNodeRedis(second), end };
  },
  async '@upstash/redis'(url) {
    const redis = new Redis(url);
    const bridge = await startUpstash(redis);
    const open = () => new Upstash({ url: bridge.url, token: 'local', enableTelemetry: false });
    const end = () => Promise.all([bridge.stop(), redis.quit()]);
    return { first: open(), second: open(), end };
  },
};

/** The package of each client. */
const PACKAGES: Readonly<Record<string, string>> = {
  'ioredis on a cluster': 'ioredis',
  'node-redis': 'redis',
};

describeWithRedis('Redis inbox', () => {
  let server: Service;
  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(() => server.stop());

  for (const [client, connect] of Object.entries(clients)) {
    describe(`over ${client}`, () => {
      let connections: Connections;
      beforeAll(async () => {
        connections = await connect(server.url);
      });
      afterAll(() => connections.end());

      const options = recorded('inbox', client, PACKAGES[client] ?? client, { inboxContract });
      for (const [index, { name, run }] of inboxContract.entries()) {
        test(name, options, async () => {
          const prefix = `${client} ${index}`;
          const { first, second } = connections;
          await run({ inbox: redisInbox(first, { prefix }), second: redisInbox(second, { prefix }) });
        });
      }
    });
  }
});
