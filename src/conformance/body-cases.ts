/** The adapter contract, part two: bodies verified byte for byte, in any framing, and within the limit. */
import assert from 'node:assert/strict';
import { gzipSync } from 'node:zlib';
import { CONTRACT_MAX_BODY_BYTES } from './contract-receiver.js';
import {
  assertOutcome,
  assertProblem,
  bytesOf,
  type ContractCase,
  contractEvent,
  deliver,
  send,
  signedHeaders,
} from './contract-sender.js';

const HANDLED = { status: 200, outcome: 'handled' };
const TOO_LARGE = { status: 413, code: 'ERR_BODY_TOO_LARGE' };

/** JSON that a parser and a writer between the socket and the receiver would change. */
const EXACT: readonly { readonly name: string; readonly write: () => string }[] = [
  { name: 'pretty-printed', write: () => JSON.stringify(contractEvent(), null, 2) },
  { name: 'with CRLF and white space around it', write: () => `\r\n ${JSON.stringify(contractEvent())}\r\n` },
  { name: 'of non-ASCII text', write: () => JSON.stringify(contractEvent({ name: 'Zoë 東京 💶 \u2028' })) },
  {
    name: 'with escaped slashes',
    write: () => JSON.stringify(contractEvent({ path: 'a/b' })).replace('/', '\\/'),
  },
  {
    name: 'with escaped letters',
    write: () => JSON.stringify(contractEvent()).replace('note', 'n\\u006fte'),
  },
  { name: 'with a 20-digit integer', write: () => withRaw('"amount":12345678901234567890') },
  { name: 'with trailing zeros', write: () => withRaw('"amount":10.50,"rate":1E+2,"none":-0') },
  { name: 'with a key twice', write: () => withRaw('"amount":1,"amount":2') },
  { name: 'with keys like integers', write: () => withRaw('"b":1,"2":1,"1":1') },
  { name: 'with a byte order mark', write: () => `\ufeff${JSON.stringify(contractEvent())}` },
];

function withRaw(members: string): string {
  return JSON.stringify(contractEvent({ raw: 0 })).replace('"raw":0', members);
}

const exact: readonly ContractCase[] = EXACT.map(({ name, write }) => ({
  name: `a body ${name} verifies byte for byte`,
  async run(target) {
    assertOutcome(await deliver(target, write()), HANDLED);
  },
}));

const CONTENT_TYPES = [
  undefined,
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

const typed: readonly ContractCase[] = CONTENT_TYPES.map((type) => ({
  name: type === undefined ? 'no content-type is no matter' : `the content-type '${type}' is no matter`,
  async run(target) {
    const reply = await deliver(target, contractEvent(), { headers: { 'content-type': type } });
    assertOutcome(reply, HANDLED);
  },
}));

export const bodyCases: readonly ContractCase[] = [
  ...exact,
  ...typed,
  {
    name: 'a chunked body, cut within letters, verifies byte for byte',
    async run(target) {
      const bytes = bytesOf(contractEvent({ name: 'Zoë 東京 💶'.repeat(20) }));
      const pieces: Buffer[] = [];
      for (let at = 0; at < bytes.length; at += 7) pieces.push(bytes.subarray(at, at + 7));
      assertOutcome(await deliver(target, bytes, { body: pieces }), HANDLED);
    },
  },
  {
    name: 'a body of exactly the limit is taken',
    async run(target) {
      assertOutcome(await deliver(target, eventOfSize(CONTRACT_MAX_BODY_BYTES)), HANDLED);
    },
  },
  {
    name: 'a chunked body of exactly the limit is taken',
    async run(target) {
      const bytes = eventOfSize(CONTRACT_MAX_BODY_BYTES);
      assertOutcome(await deliver(target, bytes, { body: halves(bytes) }), HANDLED);
    },
  },
  {
    name: 'one byte over the limit gets 413',
    async run(target) {
      assertProblem(await deliver(target, eventOfSize(CONTRACT_MAX_BODY_BYTES + 1)), TOO_LARGE);
    },
  },
  {
    name: 'a chunked body one byte over the limit gets 413',
    async run(target) {
      const bytes = eventOfSize(CONTRACT_MAX_BODY_BYTES + 1);
      assertProblem(await deliver(target, bytes, { body: halves(bytes) }), TOO_LARGE);
    },
  },
  {
    name: 'a declared length over the limit gets 413 before any of the body is sent',
    async run(target) {
      const headers = { ...(await signedHeaders(bytesOf(''))), 'content-length': '9000000' };
      assertProblem(await send(target, { headers, unfinished: true }), TOO_LARGE);
    },
  },
  {
    name: 'a gzipped body gets 415, whichever bytes were signed',
    async run(target) {
      const plain = bytesOf(contractEvent());
      const zipped = gzipSync(plain);
      const headers = { 'content-encoding': 'gzip' };
      const problem = { status: 415, code: 'ERR_BODY_ENCODED' };
      assertProblem(await deliver(target, zipped, { headers }), problem);
      assertProblem(await deliver(target, plain, { headers, body: zipped }), problem);
    },
  },
  {
    name: 'content-encoding identity is taken',
    async run(target) {
      const headers = { 'content-encoding': 'identity' };
      assertOutcome(await deliver(target, contractEvent(), { headers }), HANDLED);
    },
  },
  {
    name: 'an empty body without a signature gets 401',
    async run(target) {
      const reply = await send(target, { body: bytesOf('') });
      assertProblem(reply, { status: 401, code: 'ERR_SIGNATURE_MISSING' });
    },
  },
  ...['GET', 'PUT', 'PATCH', 'DELETE'].map((method) => ({
    name: `${method} gets 405`,
    async run(target: { readonly url: string }) {
      const body = bytesOf(contractEvent());
      const sent = method === 'GET' ? {} : { body };
      const reply = await send(target, { method, headers: await signedHeaders(body), ...sent });
      // Some routers answer 405 themselves, in their own words.
      assert.equal(reply.status, 405);
    },
  })),
];

/** An event whose JSON is of exactly this many bytes. */
function eventOfSize(size: number): Buffer {
  const padding = 'x'.repeat(size - bytesOf(contractEvent({ padding: '' })).length);
  return bytesOf(contractEvent({ padding }));
}

function halves(bytes: Buffer): readonly Buffer[] {
  const middle = bytes.length >> 1;
  return [bytes.subarray(0, middle), bytes.subarray(middle)];
}
