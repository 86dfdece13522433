/** Every command that sends events: the exit code is 0 only for answers that show a success. */

import { exampleEvent } from 'stablehooks/testing';
import { describe, expect, test } from 'vitest';
import { makeFolder, run, SECRET } from '../command.js';
import { serve } from '../http-server.js';
import { openCatchUp } from '../own-inbox.js';

type Answer = readonly [status: number, body: string];

const HANDLED: Answer = [200, '{"outcome":"handled"}'];
const DUPLICATE: Answer = [200, '{"outcome":"duplicate"}'];
/** Answers of each kind; `answer.test.ts` has all of them. */
const FAILURES: readonly Answer[] = [
  [200, '{"outcome":"ignored"}'],
  [200, '{"code":"ERR_HANDLER_FAILED","outcome":"handled"}'],
  [200, '<!doctype html><title>Log in</title>'],
  [503, '{"outcome":"handled"}'],
];
/** The endpoint cuts the connection. */
const CUT: Answer = [0, ''];

/** The commands, and whether `duplicate` is a success: the endpoint can have the event from a delivery. */
const SENDERS = {
  trigger: { args: ['trigger', 'transfer.settled'], duplicate: false },
  'events replay': { args: ['events', 'replay', '--all'], duplicate: false },
  'catch-up': { args: ['catch-up', '--since', '1h', '--lag', '0s'], duplicate: true },
  'inbox run': { args: ['inbox', 'run', '--state', 'dead'], duplicate: true },
} as const;

/** Runs the command against an endpoint that gives one answer to every delivery. */
async function send(name: keyof typeof SENDERS, [status, body]: Answer): Promise<number | null> {
  await using folder = await makeFolder();
  const path = folder.at('events.db');
  const created_at = new Date(Date.now() - 60_000).toISOString();
  const event = { ...exampleEvent('transfer.settled'), created_at };
  await using server = await serve((request, response) => {
    request.resume();
    if (request.method === 'GET') {
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify([event]));
    } else if (status === 0) request.socket.destroy();
    else response.writeHead(status).end(body);
  });
  if (name === 'inbox run') {
    using inbox = await openCatchUp(path);
    const claim = await inbox.claim(event, { leaseMs: 60_000, origin: 'pull' });
    if (claim.state === 'claimed') await inbox.fail(claim.lease, { retryAfterMs: null, error: 'once' });
  }
  const usesInbox = name === 'catch-up' || name === 'inbox run';
  const env = { STABLEHOOKS_BASE_URL: server.url, STABLEHOOKS_TOKEN: 'token', STABLEHOOKS_SECRET: SECRET };
  const args = [...SENDERS[name].args, '--to', server.url, ...(usesInbox ? ['--inbox', path] : [])];
  return (await run(args, { env: name === 'trigger' ? {} : env })).exitCode;
}

describe.concurrent.each(Object.keys(SENDERS) as (keyof typeof SENDERS)[])('%s', (name) => {
  test('is a success after handled', async () => {
    expect(await send(name, HANDLED)).toBe(0);
  });
  test.for(FAILURES)('is a failure after %i %s', async (answer) => {
    expect(await send(name, answer)).toBe(1);
  });
  test('is a failure after a connection that was cut', async () => {
    expect([1, 3]).toContain(await send(name, CUT));
  });
  test(`is ${SENDERS[name].duplicate ? 'a success' : 'a failure'} after a duplicate`, async () => {
    expect(await send(name, DUPLICATE)).toBe(SENDERS[name].duplicate ? 0 : 1);
  });
});

describe.concurrent('trigger --duplicate', () => {
  test.for([
    ['duplicate', 0],
    ['queued', 1],
    ['handled', 1],
    ['failed', 1],
  ] as const)('exits after a second copy that is answered %s with %i', async ([outcome, exitCode]) => {
    let count = 0;
    await using server = await serve((request, response) => {
      request.resume();
      count += 1;
      response.end(JSON.stringify({ outcome: count === 1 ? 'handled' : outcome }));
    });
    const ended = await run(['trigger', 'transfer.settled', '--duplicate', '--to', server.url]);
    expect(ended.exitCode).toBe(exitCode);
  });
});

/** An endpoint as people type it, from its port. */
const ENDPOINTS = [
  (port: string) => `localhost:${port}/hooks`,
  (port: string) => `127.0.0.1:${port}/hooks`,
  (port: string) => `${port}/hooks`,
  (port: string) => `:${port}/hooks`,
];

test.for(ENDPOINTS)('--to can be %s', async (write) => {
  const paths: unknown[] = [];
  await using server = await serve((request, response) => {
    request.resume();
    paths.push(request.url);
    response.end('{"outcome":"handled"}');
  });
  const { port } = new URL(server.url);
  const { exitCode } = await run(['trigger', 'transfer.settled', '--to', write(port)]);
  expect([paths, exitCode]).toEqual([['/hooks'], 0]);
});

test('events list of a list that can be cut shows no absence: exit 1', async () => {
  const delivered = Array.from({ length: 50 }, () => ({
    ...exampleEvent('transfer.settled'),
    delivered: true,
  }));
  await using server = await serve((_, response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(delivered));
  });
  const env = { STABLEHOOKS_BASE_URL: server.url, STABLEHOOKS_TOKEN: 'token' };
  expect((await run(['events', 'list'], { env })).exitCode).toBe(0);
  const none = await run(['events', 'list', '--undelivered'], { env });
  expect(none).toMatchObject({ stdout: 'No events.\n', exitCode: 1 });
  expect(none.stderr).toContain("This proves nothing, because the service's list may not contain");
});
