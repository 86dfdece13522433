import assert from 'node:assert/strict';
import { Agent } from 'node:http';
import { gzipSync } from 'node:zlib';
import { SIGNATURE_HEADER } from '../core/signature.js';
import {
  type AdapterUnderTest,
  assertOutcome,
  assertProblem,
  bytesOf,
  contractEvent,
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
import type { ContractCase } from './contract.js';

type AdapterCase = ContractCase<AdapterUnderTest>;

const HANDLED = { status: 200, outcome: 'handled' };
const DUPLICATE = { status: 200, outcome: 'duplicate' };
const PARKED = { status: 200, outcome: 'parked' };
const DEAD = { status: 200, outcome: 'dead' };
const EVENT_MALFORMED = { status: 400, code: 'ERR_EVENT_MALFORMED' };
const SIGNATURE_MALFORMED = { status: 401, code: 'ERR_SIGNATURE_MALFORMED' };
const SIGNATURE_MISMATCH = { status: 401, code: 'ERR_SIGNATURE_MISMATCH' };
const BODY_TOO_LARGE = { status: 413, code: 'ERR_BODY_TOO_LARGE' };
const HANDLER_FAILED = { status: 500, code: 'ERR_HANDLER_FAILED' };
const HANDLER_TIMEOUT = { status: 500, code: 'ERR_HANDLER_TIMEOUT' };
const EVENT_BUSY = { status: 503, code: 'ERR_EVENT_BUSY' };

/** `replace` gets the right signature and returns what is sent in its place. */
const WRONG_SIGNATURES: readonly {
  readonly signature: string;
  readonly code: 'ERR_SIGNATURE_MISSING' | 'ERR_SIGNATURE_MALFORMED' | 'ERR_SIGNATURE_MISMATCH';
  readonly replace: (right: string) => string | string[] | undefined;
}[] = [
  { signature: 'no signature', code: 'ERR_SIGNATURE_MISSING', replace: () => undefined },
  { signature: 'an empty signature', code: 'ERR_SIGNATURE_MISSING', replace: () => '' },
  {
    signature: 'a signature that is too short',
    code: 'ERR_SIGNATURE_MALFORMED',
    replace: (right) => right.slice(0, -1),
  },
  {
    signature: 'a signature that is too long',
    code: 'ERR_SIGNATURE_MALFORMED',
    replace: (right) => `${right}0`,
  },
  {
    signature: 'a signature of 5,120 digits',
    code: 'ERR_SIGNATURE_MALFORMED',
    replace: (right) => right.repeat(80),
  },
  {
    signature: 'letters between the digits of the signature',
    code: 'ERR_SIGNATURE_MALFORMED',
    replace: (right) => `${right.slice(0, 31)}zz${right.slice(33)}`,
  },
  {
    signature: 'a non-ASCII signature',
    code: 'ERR_SIGNATURE_MALFORMED',
    replace: (right) => `${right.slice(0, 62)}\u00e9\u00ff`,
  },
  {
    signature: 'a signature that contains a full-width digit',
    code: 'ERR_SIGNATURE_MALFORMED',
    // A header carries the digit's UTF-8 bytes.
    replace: (right) => right.slice(0, 63) + Buffer.from('１').toString('latin1'),
  },
  {
    signature: 'the right signature twice',
    code: 'ERR_SIGNATURE_MALFORMED',
    replace: (right) => [right, right],
  },
  {
    signature: 'a forged signature before the right one',
    code: 'ERR_SIGNATURE_MALFORMED',
    replace: (right) => ['0'.repeat(64), right],
  },
  {
    signature: 'a signature prefix that is not configured',
    code: 'ERR_SIGNATURE_MALFORMED',
    replace: (right) => `sha256=${right}`,
  },
  { signature: 'a signature of zeros', code: 'ERR_SIGNATURE_MISMATCH', replace: () => '0'.repeat(64) },
  {
    signature: 'a signature with one digit changed',
    code: 'ERR_SIGNATURE_MISMATCH',
    replace: (right) => (right.startsWith('0') ? '1' : '0') + right.slice(1),
  },
];

const VALID_SIGNATURES = [
  { signature: 'a hex signature', encoding: 'hex', secret: CONTRACT_SECRETS[0] },
  { signature: 'a base64 signature', encoding: 'base64', secret: CONTRACT_SECRETS[0] },
  { signature: 'a base64url signature', encoding: 'base64url', secret: CONTRACT_SECRETS[0] },
  { signature: 'a hex signature by the second secret', encoding: 'hex', secret: CONTRACT_SECRETS[1] },
] as const;

const signatureCases: readonly AdapterCase[] = [
  ...WRONG_SIGNATURES.map(
    ({ signature, code, replace }): AdapterCase => ({
      name: `a delivery with ${signature} is answered 401 ${code}`,
      async run(adapter) {
        const event = contractEvent();
        const right = (await signedHeaders(bytesOf(event)))[SIGNATURE_HEADER] ?? '';
        const reply = await sendSigned(adapter, event, { headers: { [SIGNATURE_HEADER]: replace(right) } });
        assertProblem(reply, { status: 401, code });
        // The forged delivery did not claim the event: the valid one is the first.
        assertOutcome(await sendSigned(adapter, event), HANDLED);
      },
    }),
  ),
  ...VALID_SIGNATURES.map(
    ({ signature, ...options }): AdapterCase => ({
      name: `a delivery with ${signature} is handled`,
      async run(adapter) {
        const event = contractEvent();
        const headers = await signedHeaders(bytesOf(event), options);
        assertOutcome(await sendSigned(adapter, event, { headers }), HANDLED);
      },
    }),
  ),
  {
    name: 'a delivery with an upper-case signature and header name is handled',
    async run(adapter) {
      const event = contractEvent();
      const right = (await signedHeaders(bytesOf(event)))[SIGNATURE_HEADER] ?? '';
      const headers = {
        [SIGNATURE_HEADER]: undefined,
        [SIGNATURE_HEADER.toUpperCase()]: right.toUpperCase(),
      };
      assertOutcome(await sendSigned(adapter, event, { headers }), HANDLED);
    },
  },
  {
    name: 'a delivery signed with an unknown secret is answered 401 ERR_SIGNATURE_MISMATCH',
    async run(adapter) {
      const event = contractEvent();
      const headers = await signedHeaders(bytesOf(event), { secret: 'somebody-else' });
      assertProblem(await sendSigned(adapter, event, { headers }), SIGNATURE_MISMATCH);
    },
  },
  {
    name: 'a body that gained one space after signing is answered 401 ERR_SIGNATURE_MISMATCH',
    async run(adapter) {
      const event = contractEvent();
      const headers = await signedHeaders(bytesOf(event));
      const reply = await sendSigned(adapter, `${JSON.stringify(event)} `, { headers });
      assertProblem(reply, SIGNATURE_MISMATCH);
    },
  },
  {
    name: 'a body with invalid UTF-8 is answered 401 when its U+FFFD replacement was signed',
    async run(adapter) {
      const json = JSON.stringify(contractEvent({ word: '\ufffd' }));
      const headers = await signedHeaders(bytesOf(json));
      assertProblem(await sendSigned(adapter, withInvalidByte(json), { headers }), SIGNATURE_MISMATCH);
    },
  },
];

const TENANT = 'tenant-1';

/** What the secret function must see of a delivery to this URL, apart from the path. */
const QUERIES: readonly { readonly query: string; readonly search: string }[] = [
  { query: 'no query', search: '' },
  { query: 'a query', search: 'tenant=acme&plan=2' },
  { query: 'an encoded query', search: 'tenant=Zo%C3%AB%20%26%20Co%3D%2B&plan=a%3Fb%23c' },
];

const requestCases: readonly AdapterCase[] = [
  ...QUERIES.map(
    ({ query, search }): AdapterCase => ({
      name: `a secret function gets the path, the query and the headers of a delivery with ${query}`,
      async run({ url }) {
        const target = new URL(url);
        target.search = search;
        const event = contractEvent();
        const secret = requestSecret({
          path: target.pathname,
          query: new URLSearchParams(search),
          headers: { get: () => TENANT },
        });
        const headers = {
          ...(await signedHeaders(bytesOf(event), { secret })),
          [CONTRACT_TENANT_HEADER]: TENANT,
        };
        assertOutcome(await sendSigned({ url: target.href }, event, { headers }), HANDLED);
      },
    }),
  ),
  {
    name: 'a delivery for which the secret function gives null is answered as one whose signature does not match',
    async run(adapter) {
      const event = contractEvent();
      const headers = { [CONTRACT_TENANT_HEADER]: 'unknown' };
      const unknown = await sendSigned(adapter, event, { headers });
      assertProblem(unknown, SIGNATURE_MISMATCH);
      const forged = await sendSigned(adapter, event, {
        headers: await signedHeaders(bytesOf(event), { secret: 'somebody-else' }),
      });
      assert.equal(unknown.text, forged.text);
      assertOutcome(await sendSigned(adapter, event), HANDLED);
    },
  },
];

/** The bytes of the string, with an invalid UTF-8 byte in place of U+FFFD. */
function withInvalidByte(json: string): Buffer {
  const [before = '', after = ''] = json.split('\ufffd');
  return Buffer.concat([Buffer.from(before), Buffer.of(0xff), Buffer.from(after)]);
}

/** JSON that does not survive being parsed and written again. */
const EXACT_BODIES: readonly { readonly body: string; readonly write: () => string }[] = [
  { body: 'a pretty-printed body', write: () => JSON.stringify(contractEvent(), null, 2) },
  {
    body: 'a body with CRLF and white space around it',
    write: () => `\r\n ${JSON.stringify(contractEvent())}\r\n`,
  },
  {
    body: 'a body with non-ASCII letters',
    write: () => JSON.stringify(contractEvent({ name: 'Zoë 東京 💶 \u2028' })),
  },
  {
    body: 'a body with escaped slashes',
    write: () => JSON.stringify(contractEvent({ path: 'a/b' })).replace('/', '\\/'),
  },
  {
    body: 'a body with escaped letters',
    write: () => JSON.stringify(contractEvent()).replace('note', 'n\\u006fte'),
  },
  { body: 'a body with a 20-digit integer', write: () => withMembers('"amount":12345678901234567890') },
  {
    body: 'a body with trailing zeros in numbers',
    write: () => withMembers('"amount":10.50,"rate":1E+2,"none":-0'),
  },
  { body: 'a body with a repeated key', write: () => withMembers('"amount":1,"amount":2') },
  { body: 'a body with keys that are integers', write: () => withMembers('"b":1,"2":1,"1":1') },
  { body: 'a body with a byte order mark', write: () => `\ufeff${JSON.stringify(contractEvent())}` },
];

/** An event's JSON with these members in the payload, exactly as written. */
function withMembers(members: string): string {
  return JSON.stringify(contractEvent({ raw: 0 })).replace('"raw":0', () => members);
}

const CONTENT_TYPES = [
  'application/json; charset=utf-8',
  'application/json; charset=utf-16',
  'application/vnd.service.event+json',
  'text/plain',
  'application/octet-stream',
  'application/x-www-form-urlencoded',
  'multipart/form-data',
  'multipart/form-data; boundary=x',
  'nonsense',
  ';;;',
];

const bodyCases: readonly AdapterCase[] = [
  ...EXACT_BODIES.map(
    ({ body, write }): AdapterCase => ({
      name: `${body} is verified byte for byte and handled`,
      async run(adapter) {
        assertOutcome(await sendSigned(adapter, write()), HANDLED);
      },
    }),
  ),
  ...[undefined, ...CONTENT_TYPES].map(
    (type): AdapterCase => ({
      name: `a delivery ${type === undefined ? 'without a content-type' : `with the content-type '${type}'`} is handled`,
      async run(adapter) {
        const reply = await sendSigned(adapter, contractEvent(), { headers: { 'content-type': type } });
        assertOutcome(reply, HANDLED);
      },
    }),
  ),
  {
    name: 'a chunked body that is split inside letters is verified byte for byte and handled',
    async run(adapter) {
      const bytes = bytesOf(contractEvent({ name: 'Zoë 東京 💶'.repeat(20) }));
      const pieces: Buffer[] = [];
      for (let at = 0; at < bytes.length; at += 7) pieces.push(bytes.subarray(at, at + 7));
      assertOutcome(await sendSigned(adapter, bytes, { body: pieces }), HANDLED);
    },
  },
  {
    name: 'a body of exactly the limit is accepted',
    async run(adapter) {
      assertOutcome(await sendSigned(adapter, eventOfSize(CONTRACT_MAX_BODY_BYTES)), HANDLED);
    },
  },
  {
    name: 'a chunked body of exactly the limit is accepted',
    async run(adapter) {
      const bytes = eventOfSize(CONTRACT_MAX_BODY_BYTES);
      assertOutcome(await sendSigned(adapter, bytes, { body: halvesOf(bytes) }), HANDLED);
    },
  },
  {
    name: 'a body one byte over the limit is answered 413',
    async run(adapter) {
      assertProblem(await sendSigned(adapter, eventOfSize(CONTRACT_MAX_BODY_BYTES + 1)), BODY_TOO_LARGE);
    },
  },
  {
    name: 'a chunked body one byte over the limit is answered 413',
    async run(adapter) {
      const bytes = eventOfSize(CONTRACT_MAX_BODY_BYTES + 1);
      assertProblem(await sendSigned(adapter, bytes, { body: halvesOf(bytes) }), BODY_TOO_LARGE);
    },
  },
  {
    name: 'a content-length over the limit is answered 413 before any of the body is sent',
    async run(adapter) {
      const headers = { ...(await signedHeaders(bytesOf(''))), 'content-length': '9000000' };
      assertProblem(await sendRaw(adapter, { headers, unfinished: true }), BODY_TOO_LARGE);
    },
  },
  {
    name: 'a gzipped body is answered 415, whether the compressed or the plain bytes were signed',
    async run(adapter) {
      const plain = bytesOf(contractEvent());
      const compressed = gzipSync(plain);
      const headers = { 'content-encoding': 'gzip' };
      const problem = { status: 415, code: 'ERR_BODY_ENCODED' };
      assertProblem(await sendSigned(adapter, compressed, { headers }), problem);
      assertProblem(await sendSigned(adapter, plain, { headers, body: compressed }), problem);
    },
  },
  {
    name: 'a delivery with the content-encoding identity is handled',
    async run(adapter) {
      const headers = { 'content-encoding': 'identity' };
      assertOutcome(await sendSigned(adapter, contractEvent(), { headers }), HANDLED);
    },
  },
  {
    name: 'an empty body without a signature is answered 401',
    async run(adapter) {
      const reply = await sendRaw(adapter, { body: bytesOf('') });
      assertProblem(reply, { status: 401, code: 'ERR_SIGNATURE_MISSING' });
    },
  },
  ...['GET', 'PUT', 'PATCH', 'DELETE'].map(
    (method): AdapterCase => ({
      name: `a ${method} request is answered 405`,
      async run(adapter) {
        const body = bytesOf(contractEvent());
        const sent = method === 'GET' ? {} : { body };
        const reply = await sendRaw(adapter, { method, headers: await signedHeaders(body), ...sent });
        // Only the status: some routers answer 405 themselves, with a body of their own.
        assert.equal(reply.status, 405);
      },
    }),
  ),
];

/** An event whose JSON has exactly this many bytes. */
function eventOfSize(size: number): Buffer {
  const padding = 'x'.repeat(size - bytesOf(contractEvent({ padding: '' })).length);
  return bytesOf(contractEvent({ padding }));
}

function halvesOf(bytes: Buffer): readonly Buffer[] {
  const middle = bytes.length >> 1;
  return [bytes.subarray(0, middle), bytes.subarray(middle)];
}

/** Bodies that are signed correctly and are not events. */
const NOT_EVENTS: readonly { readonly body: string; readonly write: () => unknown }[] = [
  { body: 'that is not JSON', write: () => '{"id":' },
  { body: 'of white space', write: () => ' ' },
  { body: 'that is an array', write: () => [contractEvent()] },
  { body: 'that is null', write: () => null },
  { body: 'that is a number', write: () => 42 },
  {
    body: 'that is a JSON string of an event',
    write: () => JSON.stringify(JSON.stringify(contractEvent())),
  },
  { body: 'of 100,000 nested arrays that do not end', write: () => '['.repeat(100_000) },
  { body: 'of 100,000 nested arrays', write: () => '['.repeat(100_000) + ']'.repeat(100_000) },
  {
    body: 'with invalid UTF-8',
    write: () => withInvalidByte(JSON.stringify(contractEvent({ word: '\ufffd' }))),
  },
  { body: 'of form fields', write: () => 'id=evt_1&type=transfer.settled' },
];

/** Fields that make an event invalid; `undefined` leaves the field out. */
const WRONG_FIELDS: readonly {
  readonly field: string;
  readonly fields: Readonly<Record<string, unknown>>;
}[] = [
  { field: 'no id', fields: { id: undefined } },
  { field: 'an empty id', fields: { id: '' } },
  { field: 'a number as its id', fields: { id: 7 } },
  { field: 'an id of 10,000 characters', fields: { id: 'e'.repeat(10_000) } },
  { field: 'no type', fields: { type: undefined } },
  { field: 'an object as its type', fields: { type: {} } },
  { field: 'no created_at', fields: { created_at: undefined } },
  { field: 'a created_at that is not a date', fields: { created_at: 'yesterday' } },
  { field: 'a created_at of 30 February', fields: { created_at: '2026-02-30T00:00:00Z' } },
  { field: 'a created_at in epoch milliseconds', fields: { created_at: 1_784_000_000_000 } },
  { field: 'no payload', fields: { payload: undefined } },
  { field: 'an array as its payload', fields: { payload: [] } },
  { field: 'null as its payload', fields: { payload: null } },
  { field: 'a string as its delivered field', fields: { delivered: 'yes' } },
];

const eventCases: readonly AdapterCase[] = [
  ...NOT_EVENTS.map(
    ({ body, write }): AdapterCase => ({
      name: `a signed body ${body} is answered 400`,
      async run(adapter) {
        assertProblem(await sendSigned(adapter, write()), EVENT_MALFORMED);
      },
    }),
  ),
  ...WRONG_FIELDS.map(
    ({ field, fields }): AdapterCase => ({
      name: `an event with ${field} is answered 400`,
      async run(adapter) {
        assertProblem(await sendSigned(adapter, { ...contractEvent(), ...fields }), EVENT_MALFORMED);
      },
    }),
  ),
  {
    name: 'a signed empty body is answered 400',
    async run(adapter) {
      assertProblem(await sendSigned(adapter, ''), EVENT_MALFORMED);
    },
  },
  {
    name: 'a signed request without a body is answered 400',
    async run(adapter) {
      const { 'content-type': _, ...headers } = await signedHeaders(bytesOf(''));
      const reply = await sendRaw(adapter, { headers: { ...headers, 'content-length': '0' } });
      assertProblem(reply, EVENT_MALFORMED);
    },
  },
  {
    name: 'an event with unknown fields is handled',
    async run(adapter) {
      const event = { ...contractEvent(), livemode: true, api_version: '2027-01-01', delivered: false };
      assertOutcome(await sendSigned(adapter, event), HANDLED);
    },
  },
  {
    name: 'an event with a deeply nested payload is answered 200 or 400, and the server goes on',
    async run(adapter) {
      const deep = '['.repeat(50_000) + ']'.repeat(50_000);
      const json = JSON.stringify(contractEvent({ deep: 0 })).replace('"deep":0', `"deep":${deep}`);
      const reply = await sendSigned(adapter, json);
      // An inbox that writes the event as JSON can refuse it.
      assert.ok([200, 400].includes(reply.status), `The reply was ${reply.status}.`);
      assertOutcome(await sendSigned(adapter, contractEvent()), HANDLED);
    },
  },
  {
    name: 'an event with __proto__ in its payload is handled and does not change Object.prototype',
    async run(adapter) {
      const json = withMembers('"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}');
      assertOutcome(await sendSigned(adapter, json), HANDLED);
      assertOutcome(await sendSigned(adapter, contractEvent()), HANDLED);
    },
  },
  {
    name: 'an event of an unknown type is parked and answered 200 at every delivery',
    async run(adapter) {
      const event = { ...contractEvent(), type: 'card.frozen' };
      assertOutcome(await sendSigned(adapter, event), PARKED);
      assertOutcome(await sendSigned(adapter, event), PARKED);
    },
  },
  {
    name: 'an event whose type is a property of Object.prototype is parked and answered 200',
    async run(adapter) {
      for (const type of ['__proto__', 'constructor', 'toString']) {
        assertOutcome(await sendSigned(adapter, { ...contractEvent(), type }), PARKED);
      }
    },
  },
  {
    name: 'an event of a known type without a handler is ignored and answered 200',
    async run(adapter) {
      const event = contractEvent({}, 'redeem.failed');
      assertOutcome(await sendSigned(adapter, event), { status: 200, outcome: 'ignored' });
    },
  },
];

const HANDLER_FAULTS: readonly {
  readonly handler: string;
  readonly behaviour: HandlerBehaviour;
}[] = [
  { handler: 'a handler that throws an Error', behaviour: 'throw' },
  { handler: 'a handler that throws a string', behaviour: 'throw-string' },
  { handler: 'a handler that throws undefined', behaviour: 'throw-undefined' },
];

const handlerCases: readonly AdapterCase[] = [
  {
    name: 'a valid delivery is handled, and every later delivery of the event is a duplicate',
    async run(adapter) {
      const event = contractEvent();
      assertOutcome(await sendSigned(adapter, event), HANDLED);
      assertOutcome(await sendSigned(adapter, event), DUPLICATE);
      assertOutcome(await sendSigned(adapter, event), DUPLICATE);
    },
  },
  {
    name: 'of 8 simultaneous deliveries of one event exactly one is handled',
    async run(adapter) {
      const event = contractEvent({ behaviour: 'slow' });
      const replies = await Promise.all(Array.from({ length: 8 }, () => sendSigned(adapter, event)));
      let handled = 0;
      for (const reply of replies) {
        if (reply.status === 503) assertProblem(reply, EVENT_BUSY);
        else if (reply.text.includes('handled')) handled += 1;
        else assertOutcome(reply, DUPLICATE);
      }
      assert.equal(handled, 1, `${handled} of 8 simultaneous deliveries were handled.`);
      assertOutcome(await sendSigned(adapter, event), DUPLICATE);
    },
  },
  ...HANDLER_FAULTS.map(
    ({ handler, behaviour }): AdapterCase => ({
      name: `${handler} is answered 500 at every attempt`,
      async run(adapter) {
        const event = contractEvent({ behaviour });
        assertProblem(await sendSigned(adapter, event), HANDLER_FAILED);
        assertProblem(await sendSigned(adapter, event), HANDLER_FAILED);
      },
    }),
  ),
  {
    name: 'a handler that outlives its time limit is answered 500, and is not started a second time beside itself',
    async run(adapter) {
      const event = contractEvent({ behaviour: 'hold' });
      const deliveries = [sendSigned(adapter, event), sendSigned(adapter, event)];
      // One of them is answered at once: the other, whose handler runs, may be answered only when that ends, as on Lambda.
      await Promise.race(deliveries);
      // Together they take longer than the limit.
      for (const _ of [1, 2, 3]) {
        assertOutcome(await sendSigned(adapter, contractEvent({ behaviour: 'slow' })), HANDLED);
      }
      assertProblem(await sendSigned(adapter, event), EVENT_BUSY);
      const release = contractEvent({ behaviour: 'release', held: event.id });
      assertOutcome(await sendSigned(adapter, release), HANDLED);
      const replies = await Promise.all(deliveries);
      const [refused, timedOut] = replies.sort((one, other) => other.status - one.status);
      assert.ok(refused && timedOut);
      assertProblem(refused, EVENT_BUSY);
      assertProblem(timedOut, HANDLER_TIMEOUT);
    },
  },
  {
    name: 'a handler that rejects after its time limit is answered 500, and the server goes on',
    async run(adapter) {
      assertProblem(
        await sendSigned(adapter, contractEvent({ behaviour: 'reject-after-timeout' })),
        HANDLER_TIMEOUT,
      );
      // The first handler rejects while this one runs.
      assertOutcome(await sendSigned(adapter, contractEvent({ behaviour: 'slow' })), HANDLED);
      assertOutcome(await sendSigned(adapter, contractEvent()), HANDLED);
    },
  },
  {
    name: 'a handler that fails once is run again by the next delivery',
    async run(adapter) {
      const event = contractEvent({ behaviour: 'throw-once' });
      assertProblem(await sendSigned(adapter, event), HANDLER_FAILED);
      assertOutcome(await sendSigned(adapter, event), HANDLED);
      assertOutcome(await sendSigned(adapter, event), DUPLICATE);
    },
  },
  {
    name: 'a handler that throws PermanentError is dead-lettered and answered 200 at every delivery',
    async run(adapter) {
      const event = contractEvent({ behaviour: 'throw-permanent' });
      assertOutcome(await sendSigned(adapter, event), DEAD);
      assertOutcome(await sendSigned(adapter, event), DEAD);
    },
  },
  {
    name: 'a payload that does not match its schema is answered 500, and one that matches is handled',
    async run(adapter) {
      const problem = { status: 500, code: 'ERR_PAYLOAD_INVALID' };
      assertProblem(await sendSigned(adapter, contractEvent({ amount: 1 }, 'accept.confirmed')), problem);
      assertOutcome(await sendSigned(adapter, contractEvent({ amount: '1' }, 'accept.confirmed')), HANDLED);
    },
  },
  {
    name: 'an onOutcome that throws does not change the reply',
    async run(adapter) {
      const event = contractEvent({ observer: 'throw' });
      assertOutcome(await sendSigned(adapter, event), HANDLED);
      assertOutcome(await sendSigned(adapter, event), DUPLICATE);
      const failing = contractEvent({ observer: 'throw', behaviour: 'throw' });
      assertProblem(await sendSigned(adapter, failing), HANDLER_FAILED);
    },
  },
];

const connectionCases: readonly AdapterCase[] = [
  {
    name: 'a body that never ends is answered 500 ERR_BODY_TIMEOUT, and its connection is closed',
    async run(adapter) {
      const event = contractEvent();
      const body = bytesOf(event);
      const { closed } = await openDelivery(adapter, body, body.length - 1);
      const answer = await closed;
      assert.match(answer, /^HTTP\/1\.1 500 /);
      assert.match(answer, /"code":"ERR_BODY_TIMEOUT"/);
      assertOutcome(await sendSigned(adapter, event), HANDLED);
    },
  },
  {
    name: 'a body that is cut off half way runs no handler, and the complete delivery is handled',
    async run(adapter) {
      const event = contractEvent({ padding: 'x'.repeat(200_000) });
      const { socket, closed } = await openDelivery(adapter, bytesOf(event), 100_000);
      socket.end();
      await closed;
      assertOutcome(await sendSigned(adapter, event), HANDLED);
    },
  },
  {
    name: 'a sender that resets the connection half way does not disturb other deliveries',
    async run(adapter) {
      for (let round = 0; round < 5; round++) {
        const body = bytesOf(contractEvent());
        const { socket, closed } = await openDelivery(adapter, body, body.length >> 1);
        socket.resetAndDestroy();
        await closed;
      }
      assertOutcome(await sendSigned(adapter, contractEvent()), HANDLED);
    },
  },
  {
    name: 'an event whose sender disconnects before the reply takes effect once',
    async run(adapter) {
      const event = contractEvent({ behaviour: 'slow' });
      const { socket, closed } = await openDelivery(adapter, bytesOf(event));
      // When this is answered, one of the two has run or the other still runs.
      const reply = await sendSigned(adapter, event);
      socket.destroy();
      await closed;
      if (reply.status !== 200) await untilDone(adapter, event);
      assertOutcome(await sendSigned(adapter, event), DUPLICATE);
    },
  },
  {
    name: 'a connection serves the next delivery after a forged one whose body was not read',
    async run(adapter) {
      const forged = { headers: { [SIGNATURE_HEADER]: '0' } };
      await onOneConnection(async (agent) => {
        const content = contractEvent({ padding: 'x'.repeat(300_000) });
        const reply = await sendSigned(adapter, content, { ...forged, agent });
        assertProblem(reply, SIGNATURE_MALFORMED);
        assertOutcome(await sendSigned(adapter, contractEvent(), { agent }), HANDLED);
        const again = await sendSigned(adapter, contractEvent(), { ...forged, agent });
        assertProblem(again, SIGNATURE_MALFORMED);
        assertOutcome(await sendSigned(adapter, contractEvent(), { agent }), HANDLED);
      });
    },
  },
  {
    name: 'a connection serves the next delivery after a body that was too large',
    async run(adapter) {
      const whole = Buffer.alloc(CONTRACT_MAX_BODY_BYTES + 500_000, 'x');
      const chunked: RawRequest = { body: [whole.subarray(0, 900_000), whole.subarray(900_000)] };
      for (const raw of [{}, chunked]) {
        await onOneConnection(async (agent) => {
          assertProblem(await sendSigned(adapter, whole, { ...raw, agent }), BODY_TOO_LARGE);
          assertOutcome(await sendSigned(adapter, contractEvent(), { agent }), HANDLED);
        });
      }
    },
  },
];

async function onOneConnection(task: (agent: Agent) => Promise<void>): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  try {
    await task(agent);
  } finally {
    agent.destroy();
  }
}

/** Delivers the event until it is no longer busy. */
async function untilDone(adapter: AdapterUnderTest, event: unknown): Promise<void> {
  const deadline = Date.now() + 5_000;
  for (;;) {
    const reply = await sendSigned(adapter, event);
    if (reply.status === 200) return;
    assertProblem(reply, EVENT_BUSY);
    assert.ok(Date.now() < deadline, 'The event was still busy 5 s after its sender disconnected.');
  }
}

/**
 * The rules of an adapter: what a server that mounts {@link createContractReceiver} must answer over HTTP.
 *
 * Covers signatures, what a secret function sees of a request, bodies byte for byte and their limits, events, handlers, and broken connections. The cases
 * use HTTP only, so the server can be another process or another runtime. Each case makes its own events: cases can
 * run in any order and at the same time.
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
  ...eventCases,
  ...handlerCases,
  ...connectionCases,
];
