import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { UnknownEvent } from 'stablehooks';
import { exampleEvent, signedRequest } from 'stablehooks/testing';
import { expect, onTestFinished, test } from 'vitest';
import { listenAsProcess } from '../child.js';
import { ownPostgres } from '../services/own-postgres.js';
import { ownRedis } from '../services/own-redis.js';
import { describeWithRedis } from '../services/with-redis.js';

const cwd = fileURLToPath(new URL('../..', import.meta.url));
const secret = 'whsec_example';

const postgres = ownPostgres();

type Environment = Readonly<Record<string, string>>;

/** Starts the receiver of an example and sends it one event several times. */
async function deliver(
  name: string,
  { env, event, times }: { readonly env: Environment; readonly event: UnknownEvent; readonly times: number },
): Promise<readonly number[]> {
  const args = ['--import', 'tsx', `examples/${name}.ts`];
  const { address: url, stop } = await listenAsProcess({
    args,
    cwd,
    env: { PORT: '0', STABLEHOOKS_SECRET: secret, ...env },
  });
  onTestFinished(stop);
  const send = async () => (await fetch(url, await signedRequest(event, { secret, url }))).status;
  return Promise.all(Array.from({ length: times }, send));
}

/** Starts the worker of an example and waits until it prints the line. */
async function workUntil(name: string, { env, line }: { readonly env: Environment; readonly line: string }) {
  const worker = spawn(process.execPath, ['--import', 'tsx', `examples/${name}.ts`, 'worker'], {
    cwd,
    env: { ...process.env, STABLEHOOKS_SECRET: secret, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(async () => {
    worker.kill('SIGTERM');
    await once(worker, 'close');
  });
  for await (const printed of createInterface({ input: worker.stdout })) {
    if (!printed.startsWith(line)) continue;
    worker.stdout.resume();
    return;
  }
  throw new Error(`The worker of ${name} ended without "${line}".`);
}

test('the example queue-pg-boss answers 202, and its worker handles the event', async () => {
  const env = { DATABASE_URL: postgres.server.url };
  const event = exampleEvent('transfer.settled');
  expect(await deliver('queue-pg-boss', { env, event, times: 2 })).toEqual([202, 202]);
  await workUntil('queue-pg-boss', { env, line: `settled ${event.id}` });
});

describeWithRedis('examples over Redis', () => {
  const redis = ownRedis();

  test('the example queue-bullmq answers 202, and its worker handles the event', async () => {
    const env = { REDIS_URL: redis.server.url };
    const event = exampleEvent('transfer.settled');
    expect(await deliver('queue-bullmq', { env, event, times: 2 })).toEqual([202, 202]);
    await workUntil('queue-bullmq', { env, line: `settled ${event.id}` });
  });
});
