/** Kills processes and restarts servers while events come in, then compares the ledger with the list. */
import { setTimeout as pause } from 'node:timers/promises';
import { createSandbox } from 'stablehooks-kit/sandbox';
import { startRedis } from '../services/redis.js';
import { startFleet } from './fleet.js';
import type { ProcessSettings } from './process.js';
import { STORES, type StoreName } from './stores.js';

export interface ChaosOptions {
  readonly engine: ProcessSettings['engine'];
  readonly store: StoreName;
  readonly events: number;
  readonly eventsPerSecond: number;
  readonly eventsPerKill: number;
  /** How long to wait after the last event until the inbox has finished every event. */
  readonly settleTimeoutMs: number;
}

const secret = 'whsec_chaos';
const RESTARTS = 2;

export async function runChaos(options: ChaosOptions) {
  const startedAt = Date.now();
  const { engine, store } = options;
  const [database, redis] = await Promise.all([STORES[store].start(), startRedis()]);
  const opened = STORES[store].open(database.url);
  await opened.migrate();
  const sandbox = createSandbox({
    secret,
    seed: 1,
    faults: { drop: 0.2, duplicate: 0.2, reorder: 0.3, reorderMs: 500 },
    maxAttempts: 3,
    retryBaseMs: 100,
    timeoutMs: 3_000,
    concurrency: 200,
  });
  const { url } = await sandbox.listen(0);
  const service = { url, token: sandbox.token, since: new Date().toISOString() };
  const settings = { engine, store, databaseUrl: database.url, redisPort: redis.port, secret, service };
  const fleet = await startFleet(settings);
  let deliveries = 0;
  sandbox.endpoints.add({
    // A load balancer: the receivers that listen, in turn.
    fetch(request) {
      deliveries += 1;
      const ports = fleet.ports();
      const port = ports[deliveries % ports.length] ?? 1;
      return fetch(new Request(`http://127.0.0.1:${port}/`, request));
    },
  });

  try {
    while (fleet.ports().length < 3) await pause(50);
    let restarting: Promise<unknown> = Promise.resolve();
    const restart = () => Promise.all([database.restart(), redis.restart()]);
    const fire = [sandbox.accept, sandbox.transfer, sandbox.redeem] as const;
    const perRestart = Math.ceil(options.events / (RESTARTS + 1));
    for (let fired = 0; fired < options.events; fired++) {
      fire[fired % fire.length]?.();
      if (fired > 0 && fired % perRestart === 0) restarting = restarting.then(restart);
      if (fired > 0 && fired % options.eventsPerKill === 0) fleet.kill();
      // A busy machine fires more slowly, so that kills and restarts still fall between deliveries.
      await pause(1_000 / options.eventsPerSecond);
    }
    await restarting;
    await sandbox.settled();

    const list = sandbox.events().map(({ id }) => id);
    const isDone = async () =>
      (await opened.inbox.count()).every(
        ({ state, count }) => count === (state === 'done' ? list.length : 0),
      );
    for (const until = Date.now() + options.settleTimeoutMs; Date.now() < until; await pause(200)) {
      if (await isDone()) break;
    }
    return {
      ...(await compare(opened, { list })),
      kills: fleet.kills,
      restarts: RESTARTS,
      seconds: Math.round((Date.now() - startedAt) / 1_000),
    };
  } finally {
    await fleet.stop();
    await sandbox.close();
    await opened.close();
    await Promise.all([database.stop(), redis.stop()]);
  }
}

async function compare(
  { select, events }: Pick<ReturnType<(typeof STORES)[StoreName]['open']>, 'select' | 'events'>,
  { list }: { readonly list: readonly string[] },
) {
  const times = new Map<string, number>();
  for (const { event_id } of await select('SELECT event_id FROM ledger')) {
    const id = String(event_id);
    times.set(id, (times.get(id) ?? 0) + 1);
  }
  const fired = new Set(list);
  const origins = await select(
    `SELECT source AS origin, count(*) AS count FROM ${events} GROUP BY source ORDER BY source`,
  );
  return {
    fired: list.length,
    lost: list.filter((id) => !times.has(id)),
    twice: [...times].filter(([, count]) => count > 1).map(([id]) => id),
    invented: [...times.keys()].filter((id) => !fired.has(id)),
    origins: Object.fromEntries(origins.map(({ origin, count }) => [origin, Number(count)])),
  };
}
