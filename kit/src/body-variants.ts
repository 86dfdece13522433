/** What can happen to a body between the service that signs it and the file at hand. */
import { brotliDecompressSync, gunzipSync, inflateSync } from 'node:zlib';
import { reserialise, rewrite, writeAscii, writeSorted, writeSpaced } from './body-rewriting.js';
import { listVariants, toAttempts, toByteKey, type Variant, whereItWorks } from './variant.js';

const RAW = 'Verify the bytes as they arrived, before anything parses or decodes them.';
const part = 'body';
const bytes = new TextEncoder();
const BOM = Uint8Array.of(0xef, 0xbb, 0xbf);

/** Most that a compressed body may grow to, in bytes: a small file can hold gigabytes. */
const LIMIT = { maxOutputLength: 1_048_576 } as const;

const ENDS = toAttempts<Uint8Array>(
  { part, fix: 'Save the body byte for byte: editors, `echo` and copying from a terminal change its end.' },
  {
    'a newline (LF) was added at its end': (body) => cutEnd(body, bytes.encode('\n')),
    'a newline (CRLF) was added at its end': (body) => cutEnd(body, bytes.encode('\r\n')),
    'the newline (LF) at its end was lost': (body) => Buffer.concat([body, bytes.encode('\n')]),
    'the newline (CRLF) at its end was lost': (body) => Buffer.concat([body, bytes.encode('\r\n')]),
  },
);

const LINES = toAttempts<Uint8Array>(
  { part, fix: 'Keep the file from being converted: git autocrlf, FTP in text mode and editors do that.' },
  {
    'its line ends became CRLF': (body) => rewrite(body, (text) => text.replaceAll('\r\n', '\n')),
    'its line ends became LF': (body) => rewrite(body, (text) => text.replaceAll(/\r?\n/g, '\r\n')),
    'a byte order mark (BOM) was put in front': (body) =>
      startsWith(body, BOM) ? body.subarray(3) : undefined,
    'its byte order mark (BOM) was lost': (body) => Buffer.concat([BOM, body]),
  },
);

const COMPRESSED = toAttempts<Uint8Array>(
  { part, fix: 'The signature covers the inflated bytes: inflate first, then verify.' },
  {
    'it is compressed with gzip': (body) => whereItWorks(() => gunzipSync(body, LIMIT)),
    'it is compressed with deflate': (body) => whereItWorks(() => inflateSync(body, LIMIT)),
    'it is compressed with brotli': (body) => whereItWorks(() => brotliDecompressSync(body, LIMIT)),
  },
);

const ENCODED = toAttempts<Uint8Array>(
  { part, fix: 'Decode it first: API Gateway and Lambda set `isBase64Encoded`.' },
  { 'it is base64': fromBase64 },
);

const SERIALISED = toAttempts<Uint8Array>(
  { part, fix: `A body parser or a proxy parsed the body and wrote it again. ${RAW}` },
  {
    'its JSON was written again, and was compact': (body) =>
      reserialise(body, (value) => JSON.stringify(value)),
    'its JSON was written again, and was indented by 2': (body) =>
      reserialise(body, (value) => JSON.stringify(value, null, 2)),
    'its JSON was written again, and was indented by 4': (body) =>
      reserialise(body, (value) => JSON.stringify(value, null, 4)),
    'its JSON was written again, and was indented by tabs': (body) =>
      reserialise(body, (value) => JSON.stringify(value, null, '\t')),
    'its JSON was written again, and had a space after each comma and colon': (body) =>
      reserialise(body, writeSpaced),
    'its JSON was written again, and had its keys in order': (body) => reserialise(body, writeSorted),
    'its \\u escapes were decoded': (body) => rewrite(body, writeAscii),
    'its slashes lost their escapes': (body) => rewrite(body, (text) => text.replaceAll(/(?<!\\)\//g, '\\/')),
    'it was wrapped into a JSON string': (body) => reserialise(body, unwrap),
    'it was read as Latin-1 and written as UTF-8': toLatin1,
  },
);

const REPLACED = toAttempts<Uint8Array>(
  { part, fix: `What was signed is not the body at all: the code that signs had no bytes. ${RAW}` },
  {
    'an empty body was signed in its place': () => new Uint8Array(),
    'the text [object Object] was signed in its place': () => bytes.encode('[object Object]'),
  },
);

/** Bodies this small are tried with two changes at once, too. */
const PAIRS_LIMIT_BYTES = 32_768;

/** The body at hand, and the bodies that may have been signed in its place. */
export function listBodies(body: Uint8Array): readonly Variant<Uint8Array>[] {
  return listVariants(body, {
    attempts: [...ENDS, ...LINES, ...COMPRESSED, ...ENCODED, ...SERIALISED, ...REPLACED],
    depth: 2,
    // Inflated it may be large, however small it came.
    goesOn: ({ length }) => length <= PAIRS_LIMIT_BYTES,
    keyOf: toByteKey,
  });
}

function startsWith(body: Uint8Array, start: Uint8Array): boolean {
  return start.every((byte, index) => body[index] === byte);
}

function cutEnd(body: Uint8Array, end: Uint8Array): Uint8Array | undefined {
  const at = body.length - end.length;
  return at >= 0 && startsWith(body.subarray(at), end) ? body.subarray(0, at) : undefined;
}

function fromBase64(body: Uint8Array): Uint8Array | undefined {
  const text = Buffer.from(body).toString('latin1').trim();
  return /^[0-9A-Za-z+/_-]{4,}={0,2}$/.test(text) ? Buffer.from(text, 'base64') : undefined;
}

function unwrap(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

function toLatin1(body: Uint8Array): Uint8Array | undefined {
  const letters = Buffer.from(body).toString('utf8');
  return /^[\0-\xff]*$/.test(letters) ? Buffer.from(letters, 'latin1') : undefined;
}
