/**
 * Makes what is written to one socket: requests of valid, forged and broken framing, and what must come of them. Framing
 * that Node refuses by the head of a request never reaches a receiver, and has no shape of its own.
 */
import { createHash, createHmac } from 'node:crypto';
import { EVENT_TYPES } from 'stablehooks';
import { Draw } from './random.js';

export interface Connection {
  readonly shape: string;
  /** The parts that are written, with a turn of the event loop between two of them. */
  readonly parts: readonly Buffer[];
  readonly requests: number;
  /** How many responses to wait for before the connection is closed; 0 for those that need not be answered. */
  readonly responses: number;
  /** What the client does once it has written all. */
  readonly ending: 'wait' | 'half-close' | 'destroy' | 'wait for the server';
  /** The events that must be handled: the framing is valid, and they are signed. */
  readonly must: readonly SignedEvent[];
  /** The events that are signed in a framing that a server may refuse. */
  readonly may: readonly SignedEvent[];
  /** What no response or line may contain. */
  readonly marker: string;
}

export interface SignedEvent {
  readonly id: string;
  /** SHA-256 of its JSON. */
  readonly digest: string;
}

/** The digest that the server reports for an event that it handled. */
export const digestOf = (json: string | Uint8Array) => createHash('sha256').update(json).digest('hex');

/** The largest body that the servers take. */
export const MAX_BODY_BYTES = 16_384;

interface Parts {
  readonly draw: Draw;
  readonly path: string;
  signed(): { readonly body: Buffer; readonly signature: string; readonly event: SignedEvent };
  readonly marker: string;
}

type Made = Pick<Connection, 'parts'> & Partial<Omit<Connection, 'shape' | 'marker'>>;

const CRLF = '\r\n';

function head(lines: readonly string[]): Buffer {
  return Buffer.from(`${lines.join(CRLF)}${CRLF}${CRLF}`, 'latin1');
}

/** The lines of a request of valid framing, without its length. */
function lines({ path }: Parts, signature: string, more: readonly string[] = []): string[] {
  return [
    `POST ${path} HTTP/1.1`,
    'Host: localhost',
    'Content-Type: application/json',
    `X-SERVICE-Signature: ${signature}`,
    ...more,
  ];
}

/** A request with these lines about its length, and with its body as `write` codes it. */
function framed(
  parts: Parts,
  lengthOf: (body: Buffer) => readonly string[],
  write: (body: Buffer) => Buffer = (body) => body,
) {
  const { body, signature, event } = parts.signed();
  return { bytes: Buffer.concat([head(lines(parts, signature, lengthOf(body))), write(body)]), body, event };
}

/** A request with its length, which every server must take. */
function whole(parts: Parts, more: readonly string[] = []) {
  return framed(parts, ({ length }) => [`Content-Length: ${length}`, ...more]);
}

const CHUNKED = 'Transfer-Encoding: chunked';

function inChunks(parts: Parts, options?: Parameters<typeof chunked>[2], more: readonly string[] = []) {
  return framed(
    parts,
    () => [CHUNKED, ...more],
    (body) => chunked(parts.draw, body, options),
  );
}

/** The parts, with another signature or another body under the signature of an event. */
function changed(parts: Parts, change: (made: ReturnType<Parts['signed']>) => object): Parts {
  const signed = () => {
    const made = parts.signed();
    return { ...made, ...change(made) };
  };
  return { ...parts, signed };
}

const FORGED = '0'.repeat(64);

const replaced = (bytes: Buffer, from: string, to: string) =>
  Buffer.from(bytes.toString('latin1').replace(from, to), 'latin1');

function chunked(
  draw: Draw,
  body: Buffer,
  { extension = '', trailers = [] }: { extension?: string; trailers?: readonly string[] } = {},
): Buffer {
  const chunks: Buffer[] = [];
  for (let at = 0; at < body.length; ) {
    const size = draw.int(1, body.length);
    const chunk = body.subarray(at, at + size);
    const hex = chunk.length.toString(16);
    chunks.push(
      Buffer.from(`${draw.oneIn(2) ? hex.toUpperCase() : hex}${extension}${CRLF}`),
      chunk,
      Buffer.from(CRLF),
    );
    at += chunk.length;
  }
  return Buffer.concat([
    ...chunks,
    Buffer.from(`0${CRLF}${trailers.map((line) => line + CRLF).join('')}${CRLF}`),
  ]);
}

function cut(draw: Draw, bytes: Buffer, count = draw.int(2, 6)): Buffer[] {
  const places = Array.from({ length: count - 1 }, () => draw.int(0, bytes.length)).sort(
    (one, other) => one - other,
  );
  return [0, ...places].map((place, at) => bytes.subarray(place, places[at] ?? bytes.length));
}

type Whole = ReturnType<typeof whole>;
const must = ({ bytes, event }: Whole): Made => ({ parts: [bytes], must: [event] });
const may = ({ bytes, event }: Whole): Made => ({ parts: [bytes], may: [event] });

const SHAPES: Readonly<Record<string, (parts: Parts) => Made>> = {
  valid: (parts) => must(whole(parts)),
  'valid in pieces': (parts) => {
    const { bytes, event } = whole(parts);
    return { parts: cut(parts.draw, bytes), must: [event] };
  },
  'valid in chunks': (parts) => {
    const { bytes, event } = inChunks(parts);
    return { parts: parts.draw.oneIn(2) ? [bytes] : cut(parts.draw, bytes), must: [event] };
  },
  trailers: (parts) => {
    const trailers = ['X-Checksum: 1', `X-SERVICE-Signature: ${FORGED}`];
    return must(inChunks(parts, { trailers }, ['Trailer: X-Checksum']));
  },
  'signature in a trailer': (parts) => {
    const { body, signature } = parts.signed();
    const unsigned = lines(parts, signature, [CHUNKED]).filter((line) => !line.startsWith('X-SERVICE'));
    const trailers = [`X-SERVICE-Signature: ${signature}`];
    return { parts: [Buffer.concat([head(unsigned), chunked(parts.draw, body, { trailers })])] };
  },
  'chunk extensions': (parts) => may(inChunks(parts, { extension: ';a=b' })),
  pipelined: (parts) => {
    const many = Array.from({ length: parts.draw.int(2, 5) }, () => whole(parts));
    return {
      parts: cut(parts.draw, Buffer.concat(many.map(({ bytes }) => bytes))),
      requests: many.length,
      responses: many.length,
      must: many.map(({ event }) => event),
    };
  },
  'pipelined after a forged one': (parts) => {
    const forged = whole(changed(parts, () => ({ signature: FORGED })));
    const { bytes, event } = whole(parts);
    return { parts: [Buffer.concat([forged.bytes, bytes])], requests: 2, responses: 2, must: [event] };
  },
  'sent twice': (parts) => {
    const { bytes, event } = whole(parts);
    return { parts: [Buffer.concat([bytes, bytes])], requests: 2, responses: 2, must: [event] };
  },
  'expect 100-continue': (parts) => {
    const { bytes, body, event } = whole(parts, ['Expect: 100-continue']);
    return { parts: [bytes.subarray(0, -body.length), body], must: [event] };
  },
  upgrade: (parts) => {
    const upgrade = `Upgrade: ${parts.draw.pick(['websocket', 'h2c', 'TLS/1.0'])}`;
    return may(whole(parts, ['Connection: Upgrade, HTTP2-Settings', upgrade]));
  },
  'HTTP/1.0': (parts) => {
    const { bytes, event } = whole(parts);
    return { parts: [replaced(bytes, 'HTTP/1.1', 'HTTP/1.0')], must: [event] };
  },
  'length that is too small': (parts) => {
    const { bytes } = framed(parts, ({ length }) => [`Content-Length: ${parts.draw.int(0, length - 1)}`]);
    return { parts: [bytes], ending: 'half-close' };
  },
  'length that is too large': (parts) => {
    const more = parts.draw.int(1, 500);
    const { bytes } = framed(parts, ({ length }) => [`Content-Length: ${length + more}`]);
    return { parts: [bytes], ending: parts.draw.pick(['half-close', 'destroy']) };
  },
  'larger than the limit': (parts) => {
    const { signature } = parts.signed();
    const size = MAX_BODY_BYTES + parts.draw.int(1, 5_000);
    const body = Buffer.alloc(size, parts.marker);
    const isChunked = parts.draw.oneIn(2);
    const length = isChunked ? CHUNKED : `Content-Length: ${size}`;
    return {
      parts: [head(lines(parts, signature, [length])), isChunked ? chunked(parts.draw, body) : body],
      responses: 1,
    };
  },
  'garbage after the body': (parts) => {
    const { bytes, event } = whole(parts);
    const garbage = parts.draw.pick([
      Buffer.from('\r\n'),
      Buffer.from('}'),
      Buffer.from(parts.draw.bytes(40)),
      Buffer.from(`GET / HTTP/9\r\n${parts.marker}`),
    ]);
    return { parts: [Buffer.concat([bytes, garbage])], may: [event], ending: 'half-close' };
  },
  // What is inside belongs to a delivery that is not signed, so that nothing of it is a delivery.
  'smuggled in a body': (parts) => {
    const { bytes: body } = whole(parts);
    return { parts: [whole(changed(parts, () => ({ body, signature: FORGED }))).bytes], responses: 1 };
  },
  'smuggled in chunks': (parts) => {
    const { bytes: body } = whole(parts);
    return { parts: [inChunks(changed(parts, () => ({ body, signature: FORGED }))).bytes], responses: 1 };
  },
  'broken chunks': (parts) => {
    const { bytes } = framed(
      parts,
      () => [CHUNKED],
      (body) => {
        const sizes = ['g', '-1', 'ffffffffffffffff', '', `${body.length.toString(16)}x`, '0x10', ' 5'];
        const end = Buffer.from(`${CRLF}0${CRLF}${CRLF}`);
        return Buffer.concat([Buffer.from(parts.draw.pick(sizes) + CRLF), body, end]);
      },
    );
    return { parts: [bytes], ending: 'half-close' };
  },
  'chunks that do not end': (parts) => {
    const { bytes } = inChunks(parts);
    return {
      parts: [bytes.subarray(0, bytes.length - parts.draw.int(3, 5))],
      ending: parts.draw.pick(['half-close', 'destroy']),
    };
  },
  'forged signature': (parts) => {
    const forged = changed(parts, ({ signature }) => ({
      signature: parts.draw.pick([
        FORGED,
        '',
        signature.slice(0, 63),
        signature.slice(0, 32),
        `${signature}, ${signature}`,
        `${signature.slice(1)}g`,
        `\u00e9${signature}`,
      ]),
    }));
    return { parts: [whole(forged).bytes] };
  },
  'signature twice': (parts) => {
    const twice = changed(parts, ({ signature }) => ({
      signature: [signature, `x-service-signature: ${parts.draw.pick([signature, FORGED])}`].join(CRLF),
    }));
    return { parts: [whole(twice).bytes] };
  },
  'space around the signature': (parts) =>
    must(whole(changed(parts, ({ signature }) => ({ signature: `  ${signature}\t ` })))),
  'tampered body': (parts) => {
    const { bytes, event } = whole(parts);
    bytes[bytes.length - parts.draw.int(2, 60)] = parts.draw.int(32, 126);
    return { parts: [bytes], may: [event] };
  },
  'odd header': (parts) => {
    const odd = parts.draw.pick([
      '\0: 1',
      'a\0b: 1',
      ': 1',
      'no colon',
      'a: \x01',
      `a: ${'\x80'.repeat(20)}`,
      'Host: other',
      'Connection: close, x-service-signature',
      '__proto__: 1',
      'Content-Encoding: identity',
    ]);
    return { ...may(whole(parts, [odd])), ending: 'half-close' };
  },
  'other method': (parts) => {
    const method = parts.draw.pick([
      'GET',
      'PUT',
      'HEAD',
      'OPTIONS',
      'DELETE',
      'PATCH',
      'post',
      'PROPFIND',
      'CONNECT',
      'P\0ST',
      'POSTPOST',
    ]);
    const { bytes } = whole(parts);
    return { parts: [replaced(bytes, 'POST', method)], ending: 'half-close' };
  },
  compressed: (parts) => ({
    parts: [whole(parts, [`Content-Encoding: ${parts.draw.pick(['gzip', 'br', 'identity, gzip'])}`]).bytes],
  }),
  'odd target': (parts) => {
    const target = parts.draw.pick([
      '*',
      '/',
      '//',
      '/hooks/../hooks',
      'http://x/hooks',
      '/%',
      '/hooks%00',
      `/hooks?${'a'.repeat(4_000)}`,
      '/h ooks',
      '',
      '/\x80',
    ]);
    return { ...may(whole({ ...parts, path: target })), ending: 'half-close' };
  },
  'odd content-type': (parts) => {
    const type = parts.draw.pick([
      'text/plain',
      'x',
      ';',
      'multipart/form-data',
      'application/json; charset=utf-7',
      'application/x-www-form-urlencoded',
    ]);
    const { bytes, event } = whole(parts);
    return { parts: [replaced(bytes, 'application/json', type)], must: [event] };
  },
  garbage: (parts) => {
    const bytes = parts.draw.bytes(parts.draw.int(1, 300));
    return {
      parts: [
        parts.draw.oneIn(2) ? Buffer.from(bytes) : Buffer.from(`\x16\x03\x01\x02\0${parts.marker}`, 'latin1'),
      ],
      ending: 'half-close',
    };
  },
  'flipped byte': (parts) => {
    // It can change the event, which then is forged, or something that does not matter.
    const { bytes, event } = whole(parts);
    const at = parts.draw.int(0, bytes.length - 1);
    bytes[at] = (bytes[at] ?? 0) ^ (1 << parts.draw.int(0, 7));
    return { parts: [bytes], may: [event], ending: 'half-close' };
  },
  'cut off': (parts) => {
    const { bytes } = whole(parts);
    return {
      parts: [bytes.subarray(0, parts.draw.int(0, bytes.length - 1))],
      ending: parts.draw.pick(['half-close', 'destroy']),
    };
  },
  'closed at once': (parts) => ({ ...may(whole(parts)), ending: 'destroy' }),
  'half-closed': (parts) => ({ ...may(whole(parts)), ending: 'half-close' }),
  'body that does not arrive': (parts) => {
    const { bytes } = whole(parts);
    return { parts: [bytes.subarray(0, bytes.length - 10)], ending: 'wait for the server' };
  },
  nothing: () => ({ parts: [], requests: 1, ending: 'half-close' }),
};

export const SHAPE_NAMES = Object.keys(SHAPES);

/** The shape that lasts until a time limit of the server ends it. */
export const SLOW_SHAPE = 'body that does not arrive';

const FAST = SHAPE_NAMES.filter((name) => name !== SLOW_SHAPE);

/** Makes what is written to one connection. The same seed, index, secret and path give the same bytes. */
export function makeConnection({
  seed,
  index,
  secret,
  path,
  shape: wanted,
}: {
  readonly seed: number;
  readonly index: number;
  readonly secret: string;
  readonly path: string;
  /** @default any that ends soon */
  readonly shape?: string;
}): Connection {
  const draw = new Draw(seed, index, 0);
  const marker = draw.marker();
  let events = 0;
  const signed: Parts['signed'] = () => {
    events += 1;
    const id = `evt_${seed}_${index}_${events}`;
    const payload = {
      memo: marker,
      amount: `${draw.int(0, 9_999)}.50`,
      name: draw.pick(['Zo\u00eb', '\u{1f511}', 'plain']),
      rest: 'x'.repeat(draw.pick([0, 10, 1_000])),
    };
    const body = Buffer.from(
      JSON.stringify({ id, type: draw.pick(EVENT_TYPES), created_at: '2026-07-14T09:30:00.000Z', payload }),
    );
    const signature = createHmac('sha256', secret).update(body).digest('hex');
    return { body, signature, event: { id, digest: digestOf(body) } };
  };
  const shape = wanted ?? draw.pick(FAST);
  const made = (SHAPES[shape] as (parts: Parts) => Made)({ draw, path, signed, marker });
  return { requests: 1, responses: 1, ending: 'wait', must: [], may: [], ...made, shape, marker };
}
