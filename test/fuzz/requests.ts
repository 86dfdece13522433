/**
 * What is written to one socket, as arbitraries: requests of valid, forged and broken framing, and what must come of
 * them. Framing that Node refuses by the head of a request never reaches a receiver, and has no shape of its own.
 */
import { createHash, createHmac } from 'node:crypto';
import fc from 'fast-check';
import { EVENT_TYPES } from 'stablehooks';
import { anyStep, none, one, place, placeIn, type Step, type Steps, stepOf } from './steps.js';

/** What is written to a socket, and what must come of it. */
export interface Written {
  /** The parts that are written, with a turn of the event loop between two of them. */
  readonly parts: readonly Uint8Array[];
  /** How many responses to wait for before the connection is closed. */
  readonly responses: number;
  /** What the client does once it has written all. */
  readonly ending: 'wait' | 'half-close' | 'destroy' | 'wait for the server';
  /** The events that must be handled: the framing is valid, and they are signed. */
  readonly must: readonly string[];
  /** The events that are signed in a framing that a server may refuse. */
  readonly may: readonly string[];
}

/** An event as the server reports it: its id, and the SHA-256 of its JSON. */
export const eventOf = (id: string, json: string | Uint8Array) =>
  `${id} ${createHash('sha256').update(json).digest('hex')}`;

/** The largest body that the servers take. */
export const MAX_BODY_BYTES = 16_384;

export const SECRET = 'whsec_mark5r0uq8';
const MARKER = 'mark2vq7x0pd';

/** What no response or line may contain: payloads, secrets, signatures. */
export const CONFIDENTIAL = new RegExp(`${MARKER}|${SECRET}|[0-9a-f]{64}`);

const CRLF = '\r\n';
const CHUNKED = 'Transfer-Encoding: chunked';
const FORGED = '0'.repeat(64);
const signed = (signature: string) => `X-SERVICE-Signature: ${signature}`;

function headOf({ method, path, version, type, lines, signature, body, longer, chunks }: Request): Buffer {
  const length = chunks === undefined ? `Content-Length: ${body.length + longer}` : CHUNKED;
  const head = [`${method} ${path} ${version}`, 'Host: localhost', `Content-Type: ${type}`, ...lines, length];
  return Buffer.from(
    [...head, ...(signature === undefined ? [] : [signed(signature)]), '', ''].join(CRLF),
    'latin1',
  );
}

function bytesOf(request: Request): Buffer {
  const { body, chunks, extension, trailers } = request;
  if (chunks === undefined) return Buffer.concat([headOf(request), body]);
  const written = [headOf(request)];
  for (let at = 0, count = 0; at < body.length; count += 1) {
    const chunk = body.subarray(at, at + (chunks[count % chunks.length] ?? 1));
    written.push(Buffer.from(chunk.length.toString(16) + extension + CRLF), chunk, Buffer.from(CRLF));
    at += chunk.length;
  }
  return Buffer.concat([...written, Buffer.from(['0', ...trailers, '', ''].join(CRLF))]);
}

function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const sorted = places.map((at) => placeIn(at, bytes)).sort((one, other) => one - other);
  return [0, ...sorted].map((from, at) => bytes.subarray(from, sorted[at] ?? bytes.length));
}

let events = 0;

/** A valid request, which shapes change. Its event was never sent before. */
function valid({ server, type, name, rest }: Connection) {
  events += 1;
  const id = `evt_${events}`;
  const payload = { memo: MARKER, name, rest };
  const body: Buffer = Buffer.from(
    JSON.stringify({ id, type, created_at: '2026-07-14T09:30:00.000Z', payload }),
  );
  return {
    event: eventOf(id, body),
    method: 'POST',
    path: server === 'node:http' ? '/' : '/hooks',
    version: 'HTTP/1.1',
    type: 'application/json',
    lines: [] as readonly string[],
    signature: createHmac('sha256', SECRET).update(body).digest('hex') as string | undefined,
    body,
    /** What the length says beyond the body. */
    longer: 0,
    /** The sizes of chunks, which repeat. */
    chunks: undefined as readonly number[] | undefined,
    extension: '',
    trailers: [] as readonly string[],
    /** Where the bytes are cut into parts. */
    cuts: [] as readonly number[],
  };
}

type Request = ReturnType<typeof valid>;
type Shaped = Partial<Written> & Pick<Written, 'parts'>;

/** Shapes whose event must or may be handled, or must not. */
const shapes =
  (fate: 'must' | 'may' | 'refused', ending: Written['ending'] = 'wait') =>
  <Args>(
    args: fc.Arbitrary<Args>,
    change: (args: Args, request: Request) => Partial<Request & Written> = (args) => args ?? {},
  ) =>
    stepOf(args, (connection: Connection, given): Shaped => {
      const request = valid(connection);
      const changed = { ...request, ending, ...change(given, request) };
      return { parts: cut(bytesOf(changed), changed.cuts), [fate]: [request.event], ...changed };
    });

const must = shapes('must');
const may = shapes('may');
const refused = shapes('refused');
/** For framing that no server need answer. */
const lenient = shapes('may', 'half-close');
const broken = shapes('refused', 'half-close');

const cuts = fc.array(place, { maxLength: 5 });
const chunks = fc.array(fc.integer({ min: 1, max: 2_000 }), { minLength: 1, maxLength: 4 });
const maybeChunks = fc.option(chunks, { nil: undefined });
const ending = one('half-close', 'destroy');
const line = (...lines: string[]) => fc.record({ lines: fc.tuple(one(...lines)) });

const SHAPES: Steps<Connection, Shaped> = {
  valid: must(none),
  'valid in pieces': must(fc.record({ cuts })),
  'valid in chunks': must(fc.record({ chunks, cuts })),
  trailers: must(chunks, (chunks) => ({ chunks, trailers: ['X-Checksum: 1', signed(FORGED)] })),
  'signature in a trailer': refused(chunks, (chunks, { signature = '' }) => ({
    chunks,
    trailers: [signed(signature)],
    signature: undefined,
  })),
  'chunk extensions': may(chunks, (chunks) => ({ chunks, extension: ';a=b' })),
  pipelined: stepOf(fc.tuple(one(2, 3, 4, 5), cuts), (connection, [responses, places]) => {
    const many = Array.from({ length: responses }, () => valid(connection));
    const parts = cut(Buffer.concat(many.map(bytesOf)), places);
    return { parts, responses, must: many.map(({ event }) => event) };
  }),
  'pipelined after a forged one': must(maybeChunks, (chunks, request) => ({
    parts: [bytesOf({ ...request, chunks, signature: FORGED }), bytesOf(request)],
    responses: 2,
  })),
  'sent twice': must(none, (_, request) => ({ parts: [bytesOf(request), bytesOf(request)], responses: 2 })),
  'expect 100-continue': must(none, (_, request) => ({
    parts: [headOf({ ...request, lines: ['Expect: 100-continue'] }), request.body],
  })),
  upgrade: may(one('websocket', 'h2c', 'TLS/1.0'), (protocol) => ({
    lines: ['Connection: Upgrade, HTTP2-Settings', `Upgrade: ${protocol}`],
  })),
  'HTTP/1.0': must(fc.record({ version: one('HTTP/1.0') })),
  'length that is too small': broken(place, (at, { body }) => ({
    longer: -1 - placeIn(at, body.subarray(1)),
  })),
  'length that is too large': refused(fc.record({ longer: fc.integer({ min: 1, max: 500 }), ending })),
  'larger than the limit': refused(
    fc.record({ size: fc.nat(5_000), chunks: maybeChunks }),
    ({ size, chunks }) => ({ body: Buffer.alloc(MAX_BODY_BYTES + 1 + size, MARKER), chunks }),
  ),
  'garbage after the body': lenient(
    fc.oneof(one('\r\n', '}', `GET / HTTP/9\r\n${MARKER}`), fc.string()),
    (garbage, request) => ({ parts: [Buffer.concat([bytesOf(request), Buffer.from(garbage)])] }),
  ),
  // The request inside belongs to a delivery that is not signed, so nothing of it is a delivery.
  'smuggled in a body': refused(maybeChunks, (chunks, request) => ({
    body: bytesOf(request),
    signature: FORGED,
    chunks,
  })),
  'broken chunks': broken(one('g', '-1', 'f'.repeat(16), '', '@x', '0x10', ' 5'), (size, request) => {
    const chunk = [size.replace('@', request.body.length.toString(16)), request.body, '0', '', ''].join(CRLF);
    return { parts: [headOf({ ...request, chunks: [] }), Buffer.from(chunk)] };
  }),
  'chunks that do not end': refused(
    fc.record({ chunks, missing: one(3, 4, 5), ending }),
    ({ chunks, missing, ending }, request) => ({
      parts: [bytesOf({ ...request, chunks }).subarray(0, -missing)],
      ending,
    }),
  ),
  'forged signature': refused(
    fc.tuple(one(0, 1, 32, 63), one('', 'g', FORGED, ', @')),
    ([kept, more], { signature = '' }) => ({
      signature: signature.slice(0, kept) + more.replace('@', signature),
    }),
  ),
  'signature twice': refused(one('@', FORGED), (second, { signature = '' }) => ({
    lines: [`x-service-signature: ${second.replace('@', signature)}`],
  })),
  'space around the signature': must(none, (_, { signature }) => ({ signature: `  ${signature}\t ` })),
  'odd header': lenient(
    line(
      ...['\0: 1', 'a\0b: 1', ': 1', 'no colon', 'a: \x01', `a: ${'\x80'.repeat(20)}`, 'Host: other'],
      ...['Connection: close, x-service-signature', '__proto__: 1', 'Content-Encoding: identity'],
    ),
  ),
  'other method': broken(
    fc.record({ method: one(...'GET PUT HEAD OPTIONS DELETE PATCH post CONNECT P\0ST POSTPOST'.split(' ')) }),
  ),
  compressed: refused(
    line('Content-Encoding: gzip', 'Content-Encoding: br', 'Content-Encoding: identity, gzip'),
  ),
  'odd target': lenient(
    fc.record({
      path: one(
        ...['*', '/', '//', '/hooks/../hooks', 'http://x/hooks', '/%', '/hooks%00', '/h ooks', '', '/\x80'],
        `/hooks?${'a'.repeat(4_000)}`,
      ),
    }),
  ),
  'odd content-type': must(
    fc.record({
      type: one('text/plain', 'x', ';', 'multipart/form-data', 'application/json; charset=utf-7'),
    }),
  ),
  garbage: broken(
    fc.record({
      parts: fc.tuple(
        fc.oneof(
          fc.uint8Array({ minLength: 1, maxLength: 300 }),
          one(Buffer.from(`\x16\x03\x01\x02\0${MARKER}`)),
        ),
      ),
    }),
  ),
  // It can change the event, which then is forged, or something that does not matter.
  'flipped bit': lenient(fc.tuple(place, fc.nat(7)), ([at, bit], request) => {
    const bytes = bytesOf(request);
    const from = placeIn(at, bytes.subarray(1));
    bytes.writeUInt8(bytes.readUInt8(from) ^ (1 << bit), from);
    return { parts: [bytes] };
  }),
  'tampered body': may(fc.tuple(place, fc.integer({ min: 32, max: 126 })), ([at, byte], { body }) => {
    const tampered = Buffer.from(body);
    tampered.writeUInt8(byte, placeIn(at, body.subarray(1)));
    return { body: tampered };
  }),
  'cut off': refused(fc.record({ at: place, ending }), ({ at, ending }, request) => {
    const bytes = bytesOf(request);
    return { parts: [bytes.subarray(0, placeIn(at, bytes.subarray(1)))], ending };
  }),
  'closed at once': may(fc.record({ ending: one('destroy') })),
  'half-closed': lenient(none),
  nothing: broken(fc.record({ parts: one([]) })),
};

export const SERVERS = ['node:http', 'Express', 'Fastify'] as const;

/** What is chosen for a connection. */
export interface Connection {
  readonly server: (typeof SERVERS)[number];
  readonly shape: Step<Connection, Shaped>;
  readonly type: string;
  readonly name: string;
  readonly rest: string;
}

export const connection: fc.Arbitrary<Connection> = fc.record({
  server: one(...SERVERS),
  shape: anyStep(SHAPES),
  type: one(...EVENT_TYPES),
  name: one('Zo\u00eb', '\u{1f511}', 'plain'),
  rest: one('', 'x'.repeat(10), 'x'.repeat(1_000)),
});

/** A connection to each server. */
const toEach = (name: string, run: Connection['shape']['run']) =>
  SERVERS.map(
    (server): Connection => ({ server, shape: { name, run }, type: EVENT_TYPES[0], name, rest: '' }),
  );

export const VALID = toEach('valid', (connection) => {
  const request = valid(connection);
  return { parts: [bytesOf(request)], must: [request.event] };
});

/** They last until a time limit of the server ends them. */
export const SLOW = toEach('body that does not arrive', (connection) => ({
  parts: [bytesOf(valid(connection)).subarray(0, -10)],
  ending: 'wait for the server',
}));

/** What must have been written: every shape to every server. */
export const KINDS = SERVERS.flatMap((server) =>
  [...Object.keys(SHAPES), 'body that does not arrive'].map((name) => `${server}: ${name}`),
);

export const write = (connection: Connection): Written => ({
  responses: 1,
  ending: 'wait',
  must: [],
  may: [],
  ...connection.shape.run(connection),
});
