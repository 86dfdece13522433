import { type RedisLike, redisInbox } from 'stablehooks/inboxes/redis';
import { afterAll, beforeAll, test } from 'vitest';
import type { ContractCase, InboxUnderTest } from '../contracts/index.js';
import { startRedis } from '../services/redis.js';
import type { Service } from '../services/service.js';
import { describeWithRedis } from '../services/with-redis.js';

/** Two connections to one server. */
interface Connections {
  readonly first: RedisLike;
  readonly second: RedisLike;
  end(): Promise<unknown>;
}

/** Runs a contract of an inbox over a client. */
export function describeRedis(
  client: string,
  contract: readonly ContractCase<InboxUnderTest>[],
  connect: (server: Service) => Promise<Connections>,
  start: () => Promise<Service> = startRedis,
): void {
  describeWithRedis(`Redis inbox over ${client}`, () => {
    let server: Service;
    let connections: Connections;
    beforeAll(async () => {
      server = await start();
      connections = await connect(server);
    });
    afterAll(async () => {
      await connections.end();
      await server.stop();
    });

    for (const [index, { name, run }] of contract.entries()) {
      test(name, async () => {
        const prefix = `${client} ${index}`;
        const { first, second } = connections;
        await run({ inbox: redisInbox(first, { prefix }), second: redisInbox(second, { prefix }) });
      });
    }
  });
}
