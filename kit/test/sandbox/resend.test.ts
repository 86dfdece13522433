import { createHmac } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import type { Attempt, SandboxOptions } from 'stablehooks-kit/sandbox';
import { expect, onTestFinished, test } from 'vitest';
import { type RunningServer, serve } from '../http-server.js';
import { startSandbox } from './sandbox-server.js';

const SECRET = 'whsec_of_the_resend';
/** A byte order mark, a lone continuation byte, a zero, and half of a character. */
const MALFORMED = Uint8Array.of(0xef, 0xbb, 0xbf, 0x80, 0x00, 0x7b, 0xe2, 0x82);

interface Arrival {
  readonly path: string;
  readonly signature: string;
  readonly headers: readonly string[];
  readonly body: Buffer;
}

/** An endpoint that keeps what arrives, and answers with the body of `answer`. */
async function startEndpoint(answer: { status?: number; body?: Uint8Array } = {}) {
  const arrivals: Arrival[] = [];
  const server = await serve(async (request, response) => {
    const signature = String(request.headers['x-service-signature']);
    const headers = Object.keys(request.headers);
    arrivals.push({ path: request.url ?? '', signature, headers, body: await buffer(request) });
    response.writeHead(answer.status ?? 200).end(answer.body);
  });
  onTestFinished(() => server[Symbol.asyncDispose]());
  return { url: server.url, arrivals, answer };
}

async function startDelivered(endpoint: Pick<RunningServer, 'url'>, options: SandboxOptions = {}) {
  const server = await startSandbox({
    secret: SECRET,
    maxAttempts: 1,
    endpoints: [{ url: `${endpoint.url}/hooks` }],
    ...options,
  });
  const event = server.sandbox.emit('accept.confirmed');
  await server.sandbox.settled();
  const [delivery] = server.sandbox.deliveries();
  if (delivery === undefined) throw new Error('Nothing was delivered.');
  return { ...server, event, delivery };
}

const hmac = (body: Uint8Array) => createHmac('sha256', SECRET).update(body).digest('hex');

/** The bytes of a body, as the documentation says to read them. */
const bytesOf = ({ body, bodyBase64 }: Attempt['request'] | NonNullable<Attempt['response']>) =>
  Buffer.from(bodyBase64 ?? body, bodyBase64 === undefined ? 'utf8' : 'base64');

test('a resent delivery has the bytes of the event, meets no fault, and marks the event as delivered', async () => {
  const endpoint = await startEndpoint({ status: 500 });
  const { sandbox, event, delivery } = await startDelivered(endpoint);
  expect(sandbox.events()).toMatchObject([{ delivered: false }]);
  endpoint.answer.status = 200;
  sandbox.faults.set({ drop: 1, duplicate: 1, corruptSignature: 1 });
  const attempt = await sandbox.resend(delivery.id);
  expect(attempt).toMatchObject({ eventId: event.id, type: 'accept.confirmed', number: 1, faults: [] });
  expect(endpoint.arrivals).toHaveLength(2);
  expect(endpoint.arrivals[1]).toEqual(endpoint.arrivals[0]);
  expect(sandbox.events()).toMatchObject([{ delivered: true }]);
  expect(sandbox.attempts().at(-1)).toEqual(attempt);
  expect(sandbox.deliveries()).toMatchObject([
    { id: attempt.deliveryId, state: 'delivered' },
    { id: delivery.id },
  ]);
});

test.each([
  ['a string', '{"id":"evt_edited"}', Buffer.from('{"id":"evt_edited"}')],
  ['an empty string', '', Buffer.alloc(0)],
  ['a string that UTF-8 cannot hold', '\ud800', Buffer.from([0xef, 0xbf, 0xbd])],
  [
    'UTF-8 with a byte order mark',
    Uint8Array.of(0xef, 0xbb, 0xbf, 0x7b),
    Buffer.from([0xef, 0xbb, 0xbf, 0x7b]),
  ],
  ['malformed UTF-8', MALFORMED, Buffer.from(MALFORMED)],
  ['1 MiB of binary', new Uint8Array(1_048_576).fill(0xff), Buffer.alloc(1_048_576, 0xff)],
])('%s arrives and is kept byte for byte, signed over these bytes', async (_, body, bytes) => {
  const endpoint = await startEndpoint();
  const { sandbox, delivery } = await startDelivered(endpoint);
  const attempt = await sandbox.resend(delivery.id, { body });
  const arrival = endpoint.arrivals.at(-1);
  expect(arrival?.body.equals(bytes)).toBe(true);
  expect(arrival?.signature).toBe(hmac(bytes));
  expect(bytesOf(attempt.request).equals(bytes)).toBe(true);
  expect((await sandbox.explain(attempt)).what).toContain('The signature is correct.');
});

test('another body, or another URL, is an attempt alone, and not a delivery of the event', async () => {
  const endpoint = await startEndpoint({ status: 500 });
  const { sandbox, delivery } = await startDelivered(endpoint);
  endpoint.answer.status = 200;
  const published: string[] = [];
  sandbox.subscribe(({ kind }) => published.push(kind));
  const attempts = [
    await sandbox.resend(delivery.id, { body: '{}' }),
    await sandbox.resend(delivery.id, { url: `${endpoint.url}/elsewhere` }),
  ];
  expect(published).toEqual(['attempt.made', 'attempt.made']);
  expect(attempts.map(({ edited }) => edited)).toEqual([true, undefined]);
  expect(sandbox.events()).toMatchObject([{ delivered: false }]);
  expect(sandbox.deliveries()).toEqual([delivery]);
  // Its id stands for the delivery that it was made of.
  const again = await sandbox.resend(attempts[1]?.deliveryId ?? '');
  expect(again.request.url).toBe(`${endpoint.url}/hooks`);
});

test('a resend to another URL sends only the content type and the signature, and follows no redirect', async () => {
  const [endpoint, other] = await Promise.all([startEndpoint(), startEndpoint({ status: 307 })]);
  const { sandbox, delivery, event } = await startDelivered(endpoint);
  const attempt = await sandbox.resend(delivery.id, { url: `${other.url}/hooks?to=other` });
  expect(attempt).toMatchObject({
    response: { status: 307 },
    request: { url: `${other.url}/hooks?to=other` },
  });
  const ofHttp = ['host', 'connection', 'accept', 'accept-language', 'accept-encoding', 'user-agent'];
  const own = other.arrivals[0]?.headers.filter(
    (name) => ![...ofHttp, 'sec-fetch-mode', 'content-length'].includes(name),
  );
  expect(own?.toSorted()).toEqual(['content-type', 'x-service-signature']);
  expect(other.arrivals[0]?.body.toString()).toContain(event.id);
  expect(endpoint.arrivals).toHaveLength(1);
});

test.each([
  [{ url: 'file:///etc/passwd' }, 'url'],
  [{ url: 'javascript:alert(1)' }, 'url'],
  [{ url: 'http://user:s3cret@127.0.0.1/' }, 'url'],
  [{ url: '/hooks' }, 'url'],
  [{ body: 5 }, 'body'],
  [{ bodyy: 'typo' }, 'bodyy'],
])('a resend with %o is refused, and nothing is sent', async (change, field) => {
  const endpoint = await startEndpoint();
  const { sandbox, ask, delivery } = await startDelivered(endpoint);
  await expect(sandbox.resend(delivery.id, change as object)).rejects.toMatchObject({
    code: 'ERR_SANDBOX_INPUT',
    errors: [{ field }],
    message: expect.not.stringContaining('s3cret'),
  });
  const answer = await ask(`/sandbox/deliveries/${delivery.id}/resend`, { json: change });
  expect(answer).toMatchObject({ status: 400, json: { errors: [{ field }] } });
  expect(endpoint.arrivals).toHaveLength(1);
});

test('a resend of a delivery that is not there, or whose endpoint was removed, is refused', async () => {
  const endpoint = await startEndpoint();
  const { sandbox, delivery } = await startDelivered(endpoint);
  await expect(sandbox.resend('del_0')).rejects.toMatchObject({ code: 'ERR_SANDBOX_NOT_FOUND' });
  sandbox.endpoints.remove(delivery.endpointId);
  await expect(sandbox.resend(delivery.id)).rejects.toMatchObject({ code: 'ERR_SANDBOX_NOT_FOUND' });
});

test('the control API takes the body as base64, and answers with the attempt', async () => {
  const endpoint = await startEndpoint();
  const { sandbox, ask, delivery } = await startDelivered(endpoint);
  const path = `/sandbox/deliveries/${delivery.id}/resend`;
  const body = Buffer.from(MALFORMED).toString('base64');
  const { status, json } = await ask(path, { json: { body } });
  expect(status).toBe(201);
  expect(json).toEqual(sandbox.attempts().at(-1));
  expect(json).toMatchObject({ request: { bodyBase64: body } });
  expect(endpoint.arrivals.at(-1)?.body.equals(MALFORMED)).toBe(true);
  const refused = await ask(path, { json: { body: 'not base64!' } });
  expect(refused).toMatchObject({ status: 400, json: { errors: [{ field: 'body' }] } });
  expect((await ask(path, { json: {} })).status).toBe(201);
  expect(endpoint.arrivals).toHaveLength(3);
});
