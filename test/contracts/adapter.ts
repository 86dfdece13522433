import assert from 'node:assert/strict';
import { Agent } from 'node:http';
import { gzipSync } from 'node:zlib';
import { SIGNATURE_HEADER } from 'stablehooks';
import {
  type AdapterUnderTest,
  type Answer,
  assertAnswer,
  bytesOf,
  contractEvent,
  deliver,
  openDelivery,
  type RawRequest,
  sendRaw,
  sendSigned,
  signedHeaders,
} from './adapter-client.js';
import {
  CONTRACT_MAX_BODY_BYTES,
  CONTRACT_SECRETS,
  CONTRACT_TENANT_HEADER,
  type HandlerBehaviour,
  requestSecret,
} from './adapter-receiver.js';
import { type ContractCase, test as testOf } from './contract.js';

type AdapterCases = readonly ContractCase<AdapterUnderTest>[];

const test = testOf<AdapterUnderTest>;

const MALFORMED = 'ERR_SIGNATURE_MALFORMED';
const MISMATCH = 'ERR_SIGNATURE_MISMATCH';

/** Replacements of the right signature, and their answers. */
const WRONG_SIGNATURES: readonly (readonly [
  signature: string,
  code: Answer,
  replace: (right: string) => string | string[] | undefined,
])[] = [
  ['no signature', 'ERR_SIGNATURE_MISSING', () => undefined],
  ['an empty signature', 'ERR_SIGNATURE_MISSING', () => ''],
  ['a signature that is too short', MALFORMED, (right) => right.slice(0, -1)],
  ['a signature that is too long', MALFORMED, (right) => `${right}0`],
  ['a signature of 5,120 digits', MALFORMED, (right) => right.repeat(80)],
  ['letters between the digits of the signature', MALFORMED, (right) => right.replace(/(?<=^.{31})../, 'zz')],
  ['a non-ASCII signature', MALFORMED, (right) => right.replace(/..$/, '\u00e9\u00ff')],
  // A header contains the UTF-8 bytes of the digit.
  ['a signature with a full-width digit', MALFORMED, (right) => right.replace(/.$/, '\u00ef\u00bc\u0091')],
  ['the right signature twice', MALFORMED, (right) => [right, right]],
  ['a forged signature before the right one', MALFORMED, (right) => ['0'.repeat(64), right]],
  ['a signature prefix that is not configured', MALFORMED, (right) => `sha256=${right}`],
  ['a signature of zeros', MISMATCH, () => '0'.repeat(64)],
  ['a signature with one digit changed', MISMATCH, (right) => (right < '1' ? '1' : '0') + right.slice(1)],
];

const VALID_SIGNATURES = {
  'a hex signature': {},
  'a base64 signature': { encoding: 'base64' },
  'a base64url signature': { encoding: 'base64url' },
  'a hex signature by the second secret': { secret: CONTRACT_SECRETS[1] },
} as const;

const rightOf = async (event: unknown) => (await signedHeaders(bytesOf(event)))[SIGNATURE_HEADER] ?? '';

const signatureCases: AdapterCases = [
  ...WRONG_SIGNATURES.map(([signature, code, replace]) =>
    test(`a delivery with ${signature} is answered 401 ${code}`, async (adapter) => {
      const event = contractEvent();
      const headers = { [SIGNATURE_HEADER]: replace(await rightOf(event)) };
      await deliver(adapter, event, code, { headers });
      // The forged delivery did not claim the event, so the valid delivery is the first.
      await deliver(adapter, event, 'handled');
    }),
  ),
  ...Object.entries(VALID_SIGNATURES).map(([signature, options]) =>
    test(`a delivery with ${signature} is handled`, async (adapter) => {
      const event = contractEvent();
      await deliver(adapter, event, 'handled', { headers: await signedHeaders(bytesOf(event), options) });
    }),
  ),
  test('a delivery with an upper-case signature and header name is handled', async (adapter) => {
    const event = contractEvent();
    const upperCase = { [SIGNATURE_HEADER.toUpperCase()]: (await rightOf(event)).toUpperCase() };
    await deliver(adapter, event, 'handled', { headers: { [SIGNATURE_HEADER]: undefined, ...upperCase } });
  }),
  test('a delivery signed with an unknown secret is answered 401 ERR_SIGNATURE_MISMATCH', async (adapter) => {
    const event = contractEvent();
    await deliver(adapter, event, MISMATCH, {
      headers: await signedHeaders(bytesOf(event), { secret: 'unknown' }),
    });
  }),
  test('a body that gained one space after signing is answered 401 ERR_SIGNATURE_MISMATCH', async (adapter) => {
    const event = contractEvent();
    await deliver(adapter, `${JSON.stringify(event)} `, MISMATCH, {
      headers: await signedHeaders(bytesOf(event)),
    });
  }),
  test('a body with invalid UTF-8 is answered 401 when its U+FFFD replacement was signed', async (adapter) => {
    const json = JSON.stringify(contractEvent({ word: '\ufffd' }));
    await deliver(adapter, withInvalidByte(json), MISMATCH, { headers: await signedHeaders(bytesOf(json)) });
  }),
];

const TENANT = 'tenant-1';

/** The secret function must receive the path and the query of a delivery to this URL. */
const QUERIES = [
  ['no query', ''],
  ['a query', 'tenant=acme&plan=2'],
  ['an encoded query', 'tenant=Zo%C3%AB%20%26%20Co%3D%2B&plan=a%3Fb%23c'],
] as const;

const requestCases: AdapterCases = [
  ...QUERIES.map(([name, search]) =>
    test(`a secret function receives the path, the query and the headers of a delivery with ${name}`, async ({
      url,
    }) => {
      const event = contractEvent();
      const { pathname: path } = new URL(url);
      const secret = requestSecret({
        path,
        query: new URLSearchParams(search),
        headers: { get: () => TENANT },
      });
      const signed = await signedHeaders(bytesOf(event), { secret });
      const headers = { ...signed, [CONTRACT_TENANT_HEADER]: TENANT };
      await deliver({ url: new URL(`?${search}`, url).href }, event, 'handled', { headers });
    }),
  ),
  test('a delivery for which the secret function returns null is answered as one whose signature does not match', async (adapter) => {
    const event = contractEvent();
    const unknown = await sendSigned(adapter, event, { headers: { [CONTRACT_TENANT_HEADER]: 'unknown' } });
    assertAnswer(unknown, MISMATCH);
    const headers = await signedHeaders(bytesOf(event), { secret: 'unknown' });
    assert.equal(unknown.text, (await sendSigned(adapter, event, { headers })).text);
    await deliver(adapter, event, 'handled');
  }),
];

/** The bytes of the string, with an invalid UTF-8 byte in place of U+FFFD. */
function withInvalidByte(json: string): Buffer {
  const [before = '', after = ''] = json.split('\ufffd');
  return Buffer.concat([Buffer.from(before), Buffer.of(0xff), Buffer.from(after)]);
}

/** An event's JSON with these members in the payload, exactly as written. */
const withMembers = (members: string) =>
  JSON.stringify(contractEvent({ raw: 0 })).replace('"raw":0', () => members);

const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth);

type Bodies = Readonly<Record<string, () => unknown>>;

/** JSON that parsing and serializing would change. */
const EXACT_BODIES: Bodies = {
  'a pretty-printed body': () => JSON.stringify(contractEvent(), null, 2),
  'a body with CRLF and white space around it': () => `\r\n ${JSON.stringify(contractEvent())}\r\n`,
  'a body with non-ASCII letters': () => contractEvent({ name: 'Zoë 東京 💶 \u2028' }),
  'a body with escaped slashes': () => JSON.stringify(contractEvent({ path: 'a/b' })).replace('/', '\\/'),
  'a body with escaped letters': () => JSON.stringify(contractEvent()).replace('note', 'n\\u006fte'),
  'a body with a 20-digit integer': () => withMembers('"amount":12345678901234567890'),
  'a body with trailing zeros in numbers': () => withMembers('"amount":10.50,"rate":1E+2,"none":-0'),
  'a body with a repeated key': () => withMembers('"amount":1,"amount":2'),
  'a body with keys that are integers': () => withMembers('"b":1,"2":1,"1":1'),
  'a body with a byte order mark': () => `\ufeff${JSON.stringify(contractEvent())}`,
};

/** Bodies that are signed correctly but are not events. */
const NOT_EVENTS: Bodies = {
  'that is not JSON': () => '{"id":',
  'of white space': () => ' ',
  'that is an array': () => [contractEvent()],
  'that is null': () => null,
  'that is a number': () => 42,
  'that is a JSON string of an event': () => JSON.stringify(JSON.stringify(contractEvent())),
  'of 100,000 nested arrays that do not end': () => '['.repeat(100_000),
  'of 100,000 nested arrays': () => nested(100_000),
  'with invalid UTF-8': () => withInvalidByte(JSON.stringify(contractEvent({ word: '\ufffd' }))),
  'of form fields': () => 'id=evt_1&type=transfer.settled',
};

/** The answers to each delivery of an event, by the behaviour of its handler. */
const ANSWERS: Readonly<Record<string, readonly Answer[]>> = {
  succeed: ['handled', 'duplicate', 'duplicate'],
  throw: ['ERR_HANDLER_FAILED', 'ERR_HANDLER_FAILED'],
  'throw-string': ['ERR_HANDLER_FAILED', 'ERR_HANDLER_FAILED'],
  'throw-undefined': ['ERR_HANDLER_FAILED', 'ERR_HANDLER_FAILED'],
  'throw-once': ['ERR_HANDLER_FAILED', 'handled', 'duplicate'],
  'throw-permanent': ['dead', 'dead'],
};

/** Fields that make an event invalid; `undefined` omits the field. */
const WRONG_FIELDS: readonly (readonly [field: string, fields: object])[] = [
  ['no id', { id: undefined }],
  ['an empty id', { id: '' }],
  ['a number as its id', { id: 7 }],
  ['an id of 10,000 characters', { id: 'e'.repeat(10_000) }],
  ['no type', { type: undefined }],
  ['an object as its type', { type: {} }],
  ['no created_at', { created_at: undefined }],
  ['a created_at that is not a date', { created_at: 'yesterday' }],
  ['a created_at of 30 February', { created_at: '2026-02-30T00:00:00Z' }],
  ['a created_at in epoch milliseconds', { created_at: 1_784_000_000_000 }],
  ['no payload', { payload: undefined }],
  ['an array as its payload', { payload: [] }],
  ['null as its payload', { payload: null }],
  ['a string as its delivered field', { delivered: 'yes' }],
];

/** Irrelevant headers beside the signature. */
const CONTENT_TYPES = [
  ...[undefined, 'application/json; charset=utf-8', 'application/json; charset=utf-16'],
  ...['application/vnd.service.event+json', 'text/plain', 'application/octet-stream'],
  ...['application/x-www-form-urlencoded', 'multipart/form-data', 'multipart/form-data; boundary=x'],
  ...['nonsense', ';;;'],
];

const bodyCases: AdapterCases = [
  ...Object.entries(EXACT_BODIES).map(([body, write]) =>
    test(`${body} is verified byte for byte and handled`, (adapter) => deliver(adapter, write(), 'handled')),
  ),
  ...Object.entries(NOT_EVENTS).map(([body, write]) =>
    test(`a signed body ${body} is answered 400`, (adapter) =>
      deliver(adapter, write(), 'ERR_EVENT_MALFORMED')),
  ),
  ...WRONG_FIELDS.map(([field, fields]) =>
    test(`an event with ${field} is answered 400`, (adapter) =>
      deliver(adapter, { ...contractEvent(), ...fields }, 'ERR_EVENT_MALFORMED')),
  ),
  ...CONTENT_TYPES.map((type) => {
    const content = type === undefined ? 'without a content-type' : `with the content-type '${type}'`;
    return test(`a delivery ${content} is handled`, (adapter) =>
      deliver(adapter, contractEvent(), 'handled', { headers: { 'content-type': type } }));
  }),
  test('a chunked body that is split inside letters is verified byte for byte and handled', async (adapter) => {
    const bytes = bytesOf(contractEvent({ name: 'Zoë 東京 💶'.repeat(20) }));
    const starts = Array.from({ length: Math.ceil(bytes.length / 7) }, (_, index) => index * 7);
    await deliver(adapter, bytes, 'handled', { body: starts.map((at) => bytes.subarray(at, at + 7)) });
  }),
  test('a body of exactly the limit is accepted', (adapter) => sendOfSize(adapter, 0, false)),
  test('a chunked body of exactly the limit is accepted', (adapter) => sendOfSize(adapter, 0, true)),
  test('a body one byte over the limit is answered 413', (adapter) => sendOfSize(adapter, 1, false)),
  test('a chunked body one byte over the limit is answered 413', (adapter) => sendOfSize(adapter, 1, true)),
  test('a content-length over the limit is answered 413 before any of the body is sent', async (adapter) => {
    const headers = { ...(await signedHeaders(bytesOf(''))), 'content-length': '9000000' };
    assertAnswer(await sendRaw(adapter, { headers, unfinished: true }), 'ERR_BODY_TOO_LARGE');
  }),
  test('a gzipped body is answered 415, whether the compressed or the plain bytes were signed', async (adapter) => {
    const plain = bytesOf(contractEvent());
    const body = gzipSync(plain);
    const headers = { 'content-encoding': 'gzip' };
    for (const signed of [body, plain]) await deliver(adapter, signed, 'ERR_BODY_ENCODED', { headers, body });
  }),
  test('a delivery with the content-encoding identity is handled', (adapter) =>
    deliver(adapter, contractEvent(), 'handled', { headers: { 'content-encoding': 'identity' } })),
  test('an empty body without a signature is answered 401', async (adapter) => {
    assertAnswer(await sendRaw(adapter, { body: bytesOf('') }), 'ERR_SIGNATURE_MISSING');
  }),
  ...[true, false].map((isChunked) =>
    test(`a delivery whose body ${isChunked ? 'has no length and ' : ''}was lost on the way is answered 500, not as a forgery`, async (adapter) => {
      // Of nothing, as a sender of an empty body signs, and of a lost event.
      for (const signed of [bytesOf(''), bytesOf(contractEvent())]) {
        const { 'content-type': _, ...headers } = await signedHeaders(signed);
        const length = isChunked ? { 'transfer-encoding': 'chunked' } : { 'content-length': '0' };
        assertAnswer(await sendRaw(adapter, { headers: { ...headers, ...length } }), 'ERR_BODY_UNAVAILABLE');
      }
    }),
  ),
  ...['GET', 'PUT', 'PATCH', 'DELETE'].map((method) =>
    test(`a ${method} request is answered 405`, async (adapter) => {
      const body = bytesOf(contractEvent());
      const sent = method === 'GET' ? {} : { body };
      const { status } = await sendRaw(adapter, { method, headers: await signedHeaders(body), ...sent });
      // Only the status: some routers answer 405 themselves, with a body of their own.
      assert.equal(status, 405);
    }),
  ),
  test('an event with a deeply nested payload is answered 200 or 400, and the server goes on', async (adapter) => {
    const { status } = await sendSigned(adapter, withMembers(`"deep":${nested(50_000)}`));
    // An inbox that writes the event as JSON can refuse it.
    assert.ok([200, 400].includes(status), `The reply was ${status}.`);
    await deliver(adapter, contractEvent(), 'handled');
  }),
  test('an event with __proto__ in its payload is handled and does not change Object.prototype', async (adapter) => {
    const members = '"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}';
    await deliver(adapter, withMembers(members), 'handled');
    await deliver(adapter, contractEvent(), 'handled');
  }),
  test('an event with unknown fields is handled', (adapter) =>
    deliver(adapter, { ...contractEvent(), livemode: true, delivered: false }, 'handled')),
  test('an event of an unknown type is parked and answered 200 at every delivery', async (adapter) => {
    for (const type of ['card.frozen', '__proto__', 'constructor', 'toString']) {
      const event = { ...contractEvent(), type };
      for (const _ of [1, 2]) await deliver(adapter, event, 'parked');
    }
  }),
  test('an event of a known type without a handler is ignored and answered 200', (adapter) =>
    deliver(adapter, contractEvent({}, 'redeem.failed'), 'ignored')),
];

/** Delivers an event of the limit and some bytes more, whole or in two chunks. */
async function sendOfSize(adapter: AdapterUnderTest, excess: number, chunked: boolean): Promise<void> {
  const empty = bytesOf(contractEvent({ padding: '' })).length;
  const bytes = bytesOf(contractEvent({ padding: 'x'.repeat(CONTRACT_MAX_BODY_BYTES + excess - empty) }));
  const pieces = { body: [bytes.subarray(0, 650_000), bytes.subarray(650_000)] };
  await deliver(adapter, bytes, excess === 0 ? 'handled' : 'ERR_BODY_TOO_LARGE', chunked ? pieces : {});
}

const handlerCases: AdapterCases = [
  ...Object.entries(ANSWERS).map(([behaviour, answers]) =>
    test(`an event whose handler does "${behaviour}" is answered ${answers.join(', then ')}`, async (adapter) => {
      for (const observer of [undefined, 'throw']) {
        // An onOutcome that throws does not change the reply.
        const event = contractEvent({ behaviour: behaviour as HandlerBehaviour, observer });
        for (const answer of answers) await deliver(adapter, event, answer);
      }
    }),
  ),
  test('a payload that does not match its schema is answered 500, and one that matches is handled', async (adapter) => {
    await deliver(adapter, contractEvent({ amount: 1 }, 'accept.confirmed'), 'ERR_PAYLOAD_INVALID');
    await deliver(adapter, contractEvent({ amount: '1' }, 'accept.confirmed'), 'handled');
  }),
  test('of 8 simultaneous deliveries of one event exactly one is handled', async (adapter) => {
    const event = contractEvent({ behaviour: 'slow' });
    const replies = await Promise.all(Array.from({ length: 8 }, () => sendSigned(adapter, event)));
    const handled = replies.filter(({ text }) => text.includes('handled')).length;
    for (const reply of replies) {
      if (reply.status === 503) assertAnswer(reply, 'ERR_EVENT_BUSY');
      else if (!reply.text.includes('handled')) assertAnswer(reply, 'duplicate');
    }
    assert.equal(handled, 1, `${handled} of 8 simultaneous deliveries were handled.`);
    await deliver(adapter, event, 'duplicate');
  }),
  test('a handler that outlives its time limit is answered 500, and is not started a second time beside itself', async (adapter) => {
    const event = contractEvent({ behaviour: 'hold' });
    const deliveries = [sendSigned(adapter, event), sendSigned(adapter, event)];
    // One is refused immediately. The other, whose handler runs, may be answered only when its handler ends, as on Lambda.
    await Promise.race(deliveries);
    // A handler that started later is at its limit, so the held one is beyond it.
    await deliver(adapter, contractEvent({ behaviour: 'reject-after-timeout' }), 'ERR_HANDLER_TIMEOUT');
    await deliver(adapter, event, 'ERR_EVENT_BUSY');
    await deliver(adapter, contractEvent({ behaviour: 'release', held: event.id }), 'handled');
    const [timedOut, busy] = (await Promise.all(deliveries)).toSorted(
      (one, other) => one.status - other.status,
    );
    assert.ok(timedOut && busy);
    assertAnswer(timedOut, 'ERR_HANDLER_TIMEOUT');
    assertAnswer(busy, 'ERR_EVENT_BUSY');
  }),
  test('a handler that rejects after its time limit is answered 500, and the server goes on', async (adapter) => {
    await deliver(adapter, contractEvent({ behaviour: 'reject-after-timeout' }), 'ERR_HANDLER_TIMEOUT');
    // The first handler rejects while this one runs.
    await deliver(adapter, contractEvent({ behaviour: 'slow' }), 'handled');
    await deliver(adapter, contractEvent(), 'handled');
  }),
];

const connectionCases: AdapterCases = [
  test('a body that never ends is answered 500 ERR_BODY_TIMEOUT, and its connection is closed', async (adapter) => {
    const event = contractEvent();
    const body = bytesOf(event);
    const { closed } = await openDelivery(adapter, body, body.length - 1);
    assert.match(await closed, /^HTTP\/1\.1 500 .*"code":"ERR_BODY_TIMEOUT"/s);
    await deliver(adapter, event, 'handled');
  }),
  test('a body that is cut off half way runs no handler, and the complete delivery is handled', async (adapter) => {
    const event = contractEvent({ padding: 'x'.repeat(200_000) });
    const { socket, closed } = await openDelivery(adapter, bytesOf(event), 100_000);
    socket.end();
    await closed;
    await deliver(adapter, event, 'handled');
  }),
  test('a sender that resets the connection half way does not disturb other deliveries', async (adapter) => {
    for (let round = 0; round < 5; round++) {
      const body = bytesOf(contractEvent());
      const { socket, closed } = await openDelivery(adapter, body, body.length >> 1);
      socket.resetAndDestroy();
      await closed;
    }
    await deliver(adapter, contractEvent(), 'handled');
  }),
  test('an event whose sender disconnects before the reply takes effect once', async (adapter) => {
    const event = contractEvent({ behaviour: 'slow' });
    const { socket, closed } = await openDelivery(adapter, bytesOf(event));
    // An answer means that one of the two has run or the other still runs.
    let reply = await sendSigned(adapter, event);
    socket.destroy();
    await closed;
    for (
      const deadline = Date.now() + 5_000;
      reply.status !== 200;
      reply = await sendSigned(adapter, event)
    ) {
      assertAnswer(reply, 'ERR_EVENT_BUSY');
      assert.ok(Date.now() < deadline, 'The event was still busy 5 s after its sender disconnected.');
    }
    await deliver(adapter, event, 'duplicate');
  }),
  test('a connection serves the next delivery after a forged one whose body was not read', (adapter) =>
    onOneConnection(async (agent) => {
      const forged = { headers: { [SIGNATURE_HEADER]: '0' }, agent };
      for (const payload of [{ padding: 'x'.repeat(300_000) }, {}]) {
        await deliver(adapter, contractEvent(payload), MALFORMED, forged);
        await deliver(adapter, contractEvent(), 'handled', { agent });
      }
    })),
  test('a connection serves the next delivery after a body that was too large', async (adapter) => {
    const whole = Buffer.alloc(CONTRACT_MAX_BODY_BYTES + 500_000, 'x');
    const chunked: RawRequest = { body: [whole.subarray(0, 900_000), whole.subarray(900_000)] };
    for (const raw of [{}, chunked]) {
      await onOneConnection(async (agent) => {
        await deliver(adapter, whole, 'ERR_BODY_TOO_LARGE', { ...raw, agent });
        await deliver(adapter, contractEvent(), 'handled', { agent });
      });
    }
  }),
];

async function onOneConnection(task: (agent: Agent) => Promise<void>): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  await task(agent).finally(() => agent.destroy());
}

/**
 * The rules of an adapter: the required answers over HTTP of a server that mounts {@link createContractReceiver}.
 *
 * Covers signatures, the request that a secret function receives, bodies byte for byte and their limits, events, handlers,
 * and broken connections. The cases use HTTP only, so the server can be another process or another runtime. Each case
 * creates its own events, so cases can run in any order and at the same time.
 *
 * @example
 * ```ts
 * const server = createServer(toMyHandler(createContractReceiver())).listen(0);
 * const url = `http://127.0.0.1:${server.address().port}/`;
 * for (const { name, run } of adapterContract) test(name, () => run({ url }));
 * ```
 */
export const adapterContract: readonly ContractCase<AdapterUnderTest>[] = [
  ...signatureCases,
  ...requestCases,
  ...bodyCases,
  ...handlerCases,
  ...connectionCases,
];
