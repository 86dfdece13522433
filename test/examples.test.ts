/** Each example, started as a process of its own, takes a signed event and refuses a forged one. */
import { fileURLToPath } from 'node:url';
import { exampleEvent, signedRequest } from 'stablehooks/testing';
import { afterEach, expect, test } from 'vitest';
import { type Listening, listenAsProcess } from './child.js';

const root = fileURLToPath(new URL('..', import.meta.url));
const secret = 'whsec_example';

let running: Listening | undefined;
afterEach(() => running?.stop());

test.each(['express', 'fastify', 'fetch', 'node'])('examples/%s.ts', async (name) => {
  const args = ['--import', 'tsx', `examples/${name}.ts`];
  running = await listenAsProcess({ args, cwd: root, env: { PORT: '0', WEBHOOK_SECRET: secret } });

  const url = running.address;
  const event = exampleEvent('transfer.failed');
  const signed = await signedRequest(event, { secret, url });
  const forged = await signedRequest(event, { secret: 'guessed', url });

  expect((await fetch(url, forged)).status).toBe(401);
  expect((await fetch(url, signed)).status).toBe(200);
});
