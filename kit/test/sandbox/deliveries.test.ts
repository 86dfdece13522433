import { createHmac } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { createSandbox, SandboxError, type SandboxOptions } from 'stablehooks-kit/sandbox';
import { expect, onTestFinished, test } from 'vitest';
import { findClosedUrl, serve } from '../http-server.js';
import { startSandbox } from './sandbox-server.js';

interface Arrival {
  readonly signature: string | null;
  readonly body: string;
}

/** A sandbox on a manual clock with one endpoint that answers the statuses in turn, the last one permanently. */
function deliveringTo(statuses: readonly number[], options: SandboxOptions = {}) {
  const arrivals: Arrival[] = [];
  const fetch = async (request: Request) => {
    arrivals.push({ signature: request.headers.get('x-service-signature'), body: await request.text() });
    return new Response('said', { status: statuses[Math.min(arrivals.length, statuses.length) - 1] ?? 200 });
  };
  const sandbox = createSandbox({
    seed: 1,
    clock: 'manual',
    secret: 'whsec',
    endpoints: [{ fetch }],
    ...options,
  });
  onTestFinished(() => sandbox.close());
  return { sandbox, arrivals };
}

const hmac = (body: string, encoding: 'hex' | 'base64') =>
  createHmac('sha256', 'whsec').update(body).digest(encoding);

test('a delivery is retried with growing waits, the same bytes and the same signature until it is answered 2xx', async () => {
  const { sandbox, arrivals } = deliveringTo([500, 302, 404, 201]);
  const event = sandbox.emit('accept.confirmed');
  await sandbox.settled();
  expect(new Set(arrivals.map(({ body }) => body)).size).toBe(1);
  expect(arrivals.every(({ signature, body }) => signature === hmac(body, 'hex'))).toBe(true);
  const attempts = sandbox.attempts({ eventId: event.id });
  expect(attempts.map(({ number, response }) => [number, response?.status])).toEqual([
    [1, 500],
    [2, 302],
    [3, 404],
    [4, 201],
  ]);
  expect(attempts[0]).toMatchObject({ error: null, response: { body: 'said' }, request: { method: 'POST' } });
  const waits = attempts
    .slice(1)
    .map(({ startedAt }, at) => Date.parse(startedAt) - Date.parse(attempts[at]?.startedAt ?? ''));
  for (const [at, wait] of waits.entries()) {
    expect(wait).toBeGreaterThanOrEqual(500 * 2 ** at);
    expect(wait).toBeLessThanOrEqual(1000 * 2 ** at);
  }
  expect(sandbox.events()).toMatchObject([{ delivered: true }]);
  expect(sandbox.deliveries()).toMatchObject([{ state: 'delivered', attempts: 4 }]);
});

/** How long after the first attempt the second one began, in ms. */
async function secondAttemptAfter(headers: Readonly<Record<string, string>>): Promise<number> {
  const sandbox = createSandbox({
    seed: 1,
    clock: 'manual',
    maxAttempts: 2,
    endpoints: [{ fetch: () => new Response(null, { status: 503, headers }) }],
  });
  onTestFinished(() => sandbox.close());
  sandbox.emit('accept.confirmed');
  await sandbox.settled();
  const [first, second] = sandbox.attempts().map(({ startedAt }) => Date.parse(startedAt));
  return (second ?? Number.NaN) - (first ?? Number.NaN);
}

test('a delivery is attempted again no earlier than the Retry-After of the endpoint in seconds', async () => {
  const backoffMs = await secondAttemptAfter({});
  expect(backoffMs).toBeLessThanOrEqual(1000);
  expect(await secondAttemptAfter({ 'retry-after': '120' })).toBe(120_000);
});

test('a Retry-After waits at most an hour, and one that is shorter or unreadable leaves the wait as it is', async () => {
  const backoffMs = await secondAttemptAfter({});
  for (const far of ['86400', '9'.repeat(400)]) {
    expect(await secondAttemptAfter({ 'retry-after': far })).toBe(3_600_000);
  }
  for (const value of ['0', '-5', 'soon', '', 'Mon, 06 Jul 2020 10:00:00 GMT']) {
    expect(await secondAttemptAfter({ 'retry-after': value })).toBe(backoffMs);
  }
});

test('a delivery is exhausted after maxAttempts, and redeliver starts another', async () => {
  const { sandbox } = deliveringTo([500, 500, 200], { maxAttempts: 2 });
  const { id } = sandbox.emit('accept.confirmed');
  await sandbox.settled();
  expect(sandbox.deliveries()).toMatchObject([{ state: 'exhausted', attempts: 2 }]);
  expect(sandbox.events()).toMatchObject([{ delivered: false }]);
  sandbox.redeliver(id);
  await sandbox.settled();
  expect(sandbox.events()).toMatchObject([{ delivered: true }]);
});

test('each endpoint gets signatures by its own secret, encoding and header, and by its new secret after a rotation', async () => {
  const seen: (string | null)[] = [];
  const { sandbox, arrivals } = deliveringTo([200]);
  const { id } = sandbox.endpoints.add({
    encoding: 'base64',
    signatureHeader: 'X-Acme-Signature',
    fetch: (request) => {
      seen.push(request.headers.get('x-acme-signature'));
      return new Response();
    },
  });
  sandbox.emit('accept.confirmed');
  await sandbox.settled();
  expect(seen).toEqual([hmac(arrivals[0]?.body ?? '', 'base64')]);
  sandbox.endpoints.rotateSecret(id, 'another');
  sandbox.emit('accept.confirmed');
  await sandbox.settled();
  expect(seen[1]).toBe(
    createHmac('sha256', 'another')
      .update(arrivals[1]?.body ?? '')
      .digest('base64'),
  );
  expect(JSON.stringify([sandbox.endpoints.list(), sandbox.attempts()])).not.toMatch(/whsec|another/);
  sandbox.endpoints.remove(id);
  sandbox.emit('accept.confirmed');
  await sandbox.settled();
  expect(seen).toHaveLength(2);
});

test('a secret with white space around it is refused at creation, by add and by rotateSecret', () => {
  for (const secret of [' padded', 'padded\n']) {
    expect(() => createSandbox({ secret })).toThrow(/secret/);
    const { sandbox } = deliveringTo([200]);
    expect(() => sandbox.endpoints.add({ url: 'http://127.0.0.1:1/', secret })).toThrow(SandboxError);
    const [endpoint] = sandbox.endpoints.list();
    expect(() => sandbox.endpoints.rotateSecret(endpoint?.id ?? '', secret)).toThrow(/secret must not begin/);
  }
});

test('an endpoint that never answers times out, is retried and delays no other endpoint', async () => {
  const { sandbox, arrivals } = deliveringTo([200], {
    timeoutMs: 5000,
    maxAttempts: 2,
    settleTimeoutMs: 50,
    concurrency: 4,
  });
  const silent = sandbox.endpoints.add({ fetch: () => new Promise(() => {}) });
  for (let n = 0; n < 12; n++) sandbox.emit('accept.confirmed');
  const startedAt = sandbox.clock.now();
  await sandbox.clock.advance(0);
  expect(arrivals).toHaveLength(12);
  expect(sandbox.clock.now()).toBe(startedAt);
  await sandbox.settled();
  const toSilent = sandbox.attempts().filter(({ endpointId }) => endpointId === silent.id);
  expect(toSilent).toHaveLength(24);
  for (const { error, errorCode, durationMs } of toSilent) {
    expect(errorCode).toBe('ERR_ATTEMPT_TIMEOUT');
    expect(error).toBe('The endpoint did not respond within 5000 ms.');
    expect(durationMs).toBe(5000);
  }
});

test('an attempt without an answer has the code of its error, in the list of attempts and in the stream', async () => {
  await using closing = await serve((request) => void request.socket.destroy());
  const closed = (await findClosedUrl()).replace('127.0.0.1', 'localhost');
  await using answering = await serve((_, response) => void response.end());
  const { sandbox, ask } = await startSandbox({
    maxAttempts: 1,
    endpoints: [{ url: closing.url }, { url: closed }],
  });
  const streamed: unknown[] = [];
  sandbox.subscribe(({ kind, data }) => kind === 'attempt.made' && streamed.push(data));
  sandbox.emit('accept.confirmed');
  await sandbox.settled();
  sandbox.endpoints.add({ url: answering.url });
  sandbox.faults.set({ reset: 1 });
  sandbox.emit('accept.confirmed');
  await sandbox.settled();
  const { json } = await ask('/sandbox/attempts');
  expect(json).toEqual(streamed);
  const codes = sandbox.endpoints
    .list()
    .map(({ id }) => sandbox.attempts().findLast(({ endpointId }) => endpointId === id))
    .map((attempt) => [attempt?.errorCode, attempt?.error]);
  expect(codes).toEqual([
    // With the fault, the sandbox sends without `fetch`.
    ['ECONNRESET', 'socket hang up'],
    ['ECONNREFUSED', expect.stringContaining('ECONNREFUSED')],
    [null, 'The connection was reset before the response.'],
  ]);
  expect(sandbox.attempts().slice(0, 2)).toEqual(
    expect.arrayContaining([
      expect.objectContaining({ errorCode: 'UND_ERR_SOCKET', error: 'other side closed' }),
      expect.objectContaining({ errorCode: 'ECONNREFUSED', error: expect.stringContaining('ECONNREFUSED') }),
    ]),
  );
});

test('a fault of { next: 1 } occurs in the next attempt only', async () => {
  const { sandbox, arrivals } = deliveringTo([401, 200], { faults: { corruptSignature: { next: 1 } } });
  sandbox.emit('accept.confirmed');
  await sandbox.settled();
  expect(arrivals.map(({ signature, body }) => signature === hmac(body, 'hex'))).toEqual([false, true]);
  expect(arrivals[0]?.signature).toMatch(/^[0-9a-f]{64}$/);
  expect(sandbox.faults.get().corruptSignature).toEqual({ next: 0 });
});

test('a re-serialised body has the same content and no longer matches its signature', async () => {
  const { sandbox, arrivals } = deliveringTo([200], { faults: { reserialise: { next: 1 } } });
  const { delivered: _, ...event } = sandbox.emit('accept.confirmed');
  await sandbox.settled();
  const [arrival] = arrivals;
  expect(JSON.parse(arrival?.body ?? '')).toEqual(event);
  expect(arrival?.signature).toBe(hmac(JSON.stringify(event), 'hex'));
  expect(arrival?.body).not.toBe(JSON.stringify(event));
});

test('a dropped attempt never arrives, a duplicated one arrives twice and a delayed one arrives late', async () => {
  const { sandbox, arrivals } = deliveringTo([200], { faults: { drop: { next: 1 } }, maxAttempts: 1 });
  sandbox.emit('accept.confirmed');
  await sandbox.settled();
  expect(arrivals).toHaveLength(0);
  expect(sandbox.deliveries()).toMatchObject([{ state: 'exhausted' }]);
  sandbox.faults.set({ duplicate: { next: 1 } });
  sandbox.emit('accept.confirmed');
  await sandbox.settled();
  expect(arrivals).toHaveLength(2);
  expect(sandbox.attempts().slice(1)).toMatchObject([{ faults: [] }, { faults: ['duplicate'] }]);
  sandbox.faults.set({ delay: 1, delayMs: 60_000 });
  sandbox.emit('accept.confirmed');
  await sandbox.clock.advance(59_999);
  expect(arrivals).toHaveLength(2);
  await sandbox.clock.advance(1);
  expect(arrivals).toHaveLength(3);
});

test('a cut connection ends inside the body', async () => {
  let arrived: (request: IncomingMessage) => void = () => {};
  const broken = new Promise<{ readonly complete: boolean; readonly bytes: number }>((resolve) => {
    arrived = (request) => {
      let bytes = 0;
      request.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
      });
      request.on('error', () => {});
      request.on('close', () => resolve({ complete: request.complete, bytes }));
    };
  });
  await using server = await serve((request) => arrived(request));
  const { sandbox } = await startSandbox({
    faults: { cut: 1 },
    maxAttempts: 1,
    endpoints: [{ url: server.url }],
  });
  sandbox.emit('accept.confirmed');
  await sandbox.settled();
  expect(await broken).toMatchObject({ complete: false });
  expect((await broken).bytes).toBeGreaterThan(0);
  expect(sandbox.attempts()).toMatchObject([{ response: null, faults: ['cut'] }]);
});

test('removing an endpoint exhausts its pending deliveries, under way or waiting', async () => {
  const { sandbox } = deliveringTo([500]);
  const silent = sandbox.endpoints.add({ fetch: () => new Promise(() => {}) });
  sandbox.emit('accept.confirmed');
  for (const { id } of sandbox.endpoints.list()) sandbox.endpoints.remove(id);
  await sandbox.settled();
  const [one, other] = sandbox.deliveries();
  expect([one?.state, other?.state]).toEqual(['exhausted', 'exhausted']);
  expect(() => sandbox.endpoints.remove(silent.id)).toThrow(/This endpoint does not exist/);
});

test('the newest events, movements, deliveries and attempts are kept within their bounds', async () => {
  const { sandbox } = deliveringTo([200], { maxEvents: 100, maxAttemptsKept: 30 });
  for (let n = 0; n < 500; n++) sandbox.accept();
  const { id } = sandbox.emit('accept.confirmed');
  await sandbox.settled();
  expect(sandbox.events()).toHaveLength(100);
  expect(sandbox.events({ type: 'accept.confirmed', limit: 1 })).toMatchObject([{ id }]);
  expect(sandbox.movements()).toHaveLength(100);
  expect(sandbox.deliveries()).toHaveLength(100);
  expect(sandbox.attempts()).toHaveLength(30);
  expect(sandbox.attempts().at(-1)).toMatchObject({ eventId: id });
});

test('only the first 1,024 bytes of an endless response are kept', async () => {
  const endless = () =>
    new Response(new ReadableStream({ pull: (to) => to.enqueue(new Uint8Array(4096).fill(97)) }));
  const { sandbox } = deliveringTo([], { endpoints: [{ fetch: endless }] });
  sandbox.emit('accept.confirmed');
  await sandbox.settled();
  expect(sandbox.attempts()[0]?.response?.body).toBe('a'.repeat(1024));
});
