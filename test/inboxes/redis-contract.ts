import { type RedisLike, redisInbox } from 'stablehooks/inboxes/redis';
import { inboxContract } from 'stablehooks-kit/conformance';
import { afterAll, beforeAll, test } from 'vitest';
import { recorded } from '../compat/recorded.js';
import { startRedis } from '../services/redis.js';
import type { Service } from '../services/service.js';
import { describeWithRedis } from '../services/with-redis.js';

/** Two connections to one server. */
interface Connections {
  readonly first: RedisLike;
  readonly second: RedisLike;
  end(): Promise<unknown>;
}

/**
 * Runs the contract of an inbox over a client of the package, which is recorded unless it is only a setting of the client.
 * `flags` are those of redis-server.
 */
export function describeRedis(
  client: string,
  packageName: string | undefined,
  connect: (server: Service) => Promise<Connections>,
  flags: readonly string[] = [],
): void {
  describeWithRedis(`Redis inbox over ${client}`, () => {
    let server: Service;
    let connections: Connections;
    beforeAll(async () => {
      server = await startRedis(flags);
      connections = await connect(server);
    });
    afterAll(async () => {
      await connections.end();
      await server.stop();
    });

    const options =
      packageName === undefined ? {} : recorded('inbox', client, packageName, { inboxContract });
    for (const [index, { name, run }] of inboxContract.entries()) {
      test(name, options, async () => {
        const prefix = `${client} ${index}`;
        const { first, second } = connections;
        await run({ inbox: redisInbox(first, { prefix }), second: redisInbox(second, { prefix }) });
      });
    }
  });
}
