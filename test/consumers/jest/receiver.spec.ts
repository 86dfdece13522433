import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import express from 'express';
import { ConfigError, PermanentError, StablehooksError } from 'stablehooks';
import { createPoller } from 'stablehooks/catch-up';
import { ConnectionError, createClient } from 'stablehooks/client';
import { toExpressHandler } from 'stablehooks/express';
import { toFetchHandler } from 'stablehooks/fetch';
import { toNextApiRoute } from 'stablehooks/next';
import { exampleEvent, signedRequest } from 'stablehooks/testing';
import { inbox, receiver, settled } from './receiver';

const secret = 'whsec_jest';

test('a delivery to Express takes effect once, and a forged one not at all', async () => {
  const app = express().post('/hooks', toExpressHandler(receiver));
  const server = app.listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks`;
  const event = exampleEvent('transfer.settled');
  const statuses = [];
  for (const key of ['guessed', secret, secret]) {
    const response = await fetch(url, await signedRequest(event, { secret: key, url }));
    statuses.push(`${response.status} ${(await response.json()).outcome}`);
  }
  expect(statuses).toEqual(['401 rejected', '200 handled', '200 duplicate']);
  expect(settled).toEqual([event.id]);
  await new Promise((resolve) => server.close(resolve));
});

test('a delivery to a fetch handler is handled', async () => {
  const signed = await signedRequest(exampleEvent('transfer.settled'), { secret });
  const response = await toFetchHandler(receiver)(signed.toRequest());
  expect(response.status).toBe(200);
});

test('a delivery to a route of the Pages Router, whose reader is loaded at the first request, is handled', async () => {
  const server = createServer(toNextApiRoute(receiver)).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const response = await fetch(url, await signedRequest(exampleEvent('transfer.settled'), { secret, url }));
  expect(response.status).toBe(200);
  await new Promise((resolve) => server.close(resolve));
});

test('a handler that throws is failed, and one that throws PermanentError is dead-lettered', async () => {
  const [failing, closed] = [exampleEvent('redeem.failed'), exampleEvent('transfer.failed')];
  const failed = await receiver.handle(failing, 'push');
  expect(failed.kind).toBe('failed');
  expect(failed.error).toMatchObject({
    code: 'ERR_HANDLER_FAILED',
    cause: { message: 'The ledger is down.' },
  });
  const dead = await receiver.handle(closed, 'push');
  expect(dead.kind).toBe('dead');
  expect(dead.error).toBeInstanceOf(PermanentError);
  expect(dead.error).not.toBeInstanceOf(ConfigError);
  expect((await inbox.find(closed.id))?.lastError).toBe('ERR_HANDLER_PERMANENT: The account is closed.');
});

test('a client whose service refuses the connection says so', async () => {
  const client = createClient({ baseUrl: 'http://127.0.0.1:9', token: 'token', retries: 0 });
  const error: unknown = await client.events.list().catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(ConnectionError);
  expect(error).toBeInstanceOf(StablehooksError);
  const report = await createPoller({ client, receiver, logger: { warn() {}, error() {} } }).pollOnce();
  expect(report.problems.map(({ code }) => code)).toEqual(['ERR_API_CONNECTION']);
});

test('every subpath can be required', () => {
  const manifest = JSON.parse(readFileSync(join(__dirname, 'node_modules/stablehooks/package.json'), 'utf8'));
  const subpaths = Object.keys(manifest.exports).filter((subpath) => !/\.json$/.test(subpath));
  expect(subpaths.length).toBeGreaterThan(20);
  for (const subpath of subpaths) {
    expect(Object.keys(require(`stablehooks${subpath.slice(1)}`))).not.toEqual([]);
  }
});
