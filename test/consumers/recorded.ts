/** The checks of a Next app that answers once an event is recorded: its handlers run after the answer, once. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { exampleEvent, signedRequest } from 'stablehooks/testing';
import { type Listening, until } from '../child.js';

/** How long to wait for an answer. */
const TIMEOUT_MS = 60_000;

/** Starts the app with these variables; `cwd` is its folder. */
type Start = (env: Readonly<Record<string, string>>) => Promise<Listening>;

/**
 * A delivery is answered while its handler waits for a further request, and the handler then ends. One whose process
 * is killed after the answer is run by the next process, once.
 */
export async function proveRecorded(cwd: string, start: Start): Promise<void> {
  const endsOf = async (id: string) => {
    const text = await readFile(join(cwd, 'ended.txt'), 'utf8').catch(() => '');
    return text.split('\n').filter((line) => line === id).length;
  };

  await during(await start({}), async (app) => {
    const id = await deliver(app, '/recorded');
    assert.equal(await endsOf(id), 0);
    await ask(app, '/recorded?release');
    await until('the handler to end', async () => (await endsOf(id)) === 1);

    for (const path of ['/edge-recorded', '/api/recorded']) {
      const delivered = await deliver(app, path);
      await until('the handler to end', async () => (await ask(app, path)).includes(delivered));
    }
  });

  const killed = await start({ LEASE_MS: '2000' });
  const event = exampleEvent('transfer.settled');
  await deliver(killed, '/recorded', { event });
  await killed.kill();
  await assert.rejects(ask(killed, '/recorded'), 'A process of the app survives its kill.');
  assert.equal(await endsOf(event.id), 0);

  await during(await start({ LEASE_MS: '2000' }), async (app) => {
    await ask(app, '/recorded?release');
    await until('the handler to end', async () => {
      await ask(app, '/recorded?redrive');
      return (await endsOf(event.id)) === 1;
    });
    await deliver(app, '/recorded', { event, answer: '200 {"outcome":"duplicate"}' });
    await ask(app, '/recorded?redrive');
    assert.equal(await endsOf(event.id), 1);
  });
}

async function during(app: Listening, task: (app: Listening) => Promise<void>): Promise<void> {
  try {
    await task(app);
  } finally {
    await app.stop();
  }
}

async function deliver(
  { address }: Listening,
  path: string,
  { event = exampleEvent('transfer.settled'), answer = '202 {"outcome":"queued"}' } = {},
): Promise<string> {
  const url = new URL(path, address).href;
  const { method, headers, body } = await signedRequest(event, { secret: 'contract-secret-old', url });
  const reply = await fetch(url, { method, headers, body, signal: AbortSignal.timeout(TIMEOUT_MS) });
  assert.equal(`${reply.status} ${await reply.text()}`, answer);
  return event.id;
}

async function ask({ address }: Listening, path: string): Promise<string> {
  const reply = await fetch(new URL(path, address), { signal: AbortSignal.timeout(TIMEOUT_MS) });
  return reply.text();
}
