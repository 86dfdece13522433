import { brotliDecompressSync, gunzipSync, inflateSync } from 'node:zlib';
import { SIGNATURE_ENCODINGS, type SignatureFormat } from 'stablehooks';
import { type Change, listVariants, orUndefined, toByteKey, toChanges, type Variant } from './variants.js';

// --- The body ---

const RAW = 'Verify the bytes as they arrived, before anything parses or decodes them.';
const bytes = new TextEncoder();
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const BOM = Uint8Array.of(0xef, 0xbb, 0xbf);

/** Without a limit, a small compressed body could inflate to gigabytes. */
const LIMIT = { maxOutputLength: 1_048_576 } as const;

const BODY_CHANGES = [
  ...toChanges<Uint8Array>(
    {
      part: 'body',
      fix: 'Save the exact bytes of the body. Editors, `echo` and copying from a terminal change the end of the body.',
    },
    {
      'a newline (LF) was added at its end': (body) => cutEnd(body, bytes.encode('\n')),
      'a newline (CRLF) was added at its end': (body) => cutEnd(body, bytes.encode('\r\n')),
      'the newline (LF) at its end was lost': (body) => Buffer.concat([body, bytes.encode('\n')]),
      'the newline (CRLF) at its end was lost': (body) => Buffer.concat([body, bytes.encode('\r\n')]),
    },
  ),
  ...toChanges<Uint8Array>(
    {
      part: 'body',
      fix: 'Prevent conversion of the file: git autocrlf, FTP in text mode and editors change line endings.',
    },
    {
      'its line endings became CRLF': (body) =>
        asBuffer(body).includes('\r\n') ? rewrite(body, (text) => text.replaceAll('\r\n', '\n')) : undefined,
      'its line endings became LF': (body) =>
        asBuffer(body).includes('\n')
          ? rewrite(body, (text) => text.replaceAll('\r\n', '\n').replaceAll('\n', '\r\n'))
          : undefined,
      'a byte order mark (BOM) was added at its start': (body) =>
        startsWith(body, BOM) ? body.subarray(3) : undefined,
      'its byte order mark (BOM) was lost': (body) => Buffer.concat([BOM, body]),
    },
  ),
  ...toChanges<Uint8Array>(
    {
      part: 'body',
      fix: 'The signature covers the decompressed bytes. Decompress the body before you verify it.',
    },
    {
      'it is compressed with gzip': (body) => orUndefined(() => gunzipSync(body, LIMIT)),
      'it is compressed with deflate': (body) => orUndefined(() => inflateSync(body, LIMIT)),
      'it is compressed with brotli': (body) => orUndefined(() => brotliDecompressSync(body, LIMIT)),
    },
  ),
  ...toChanges<Uint8Array>(
    { part: 'body', fix: 'Decode the body first: API Gateway and Lambda set `isBase64Encoded`.' },
    { 'it is encoded in base64': fromBase64 },
  ),
  ...toChanges<Uint8Array>(
    { part: 'body', fix: `A body parser or a proxy parsed the body and serialized it again. ${RAW}` },
    {
      'its JSON was serialized again, but the signed JSON was compact': restyle(),
      'its JSON was serialized again, but the signed JSON was indented by 2 spaces': restyle('  '),
      'its JSON was serialized again, but the signed JSON was indented by 4 spaces': restyle('    '),
      'its JSON was serialized again, but the signed JSON was indented by tabs': restyle('\t'),
      'its JSON was serialized again, but the signed JSON had a space after each comma and colon': (body) =>
        reserialize(body, (value) => writeAscii(writeSpaced(value))),
      'its JSON was serialized again, but the signed JSON had sorted keys': (body) =>
        reserialize(body, (value) => JSON.stringify(sortKeys(value))),
      'its \\u escapes were decoded': (body) => rewrite(body, writeAscii),
      'its slashes lost their escapes': (body) =>
        rewrite(body, (text) => text.replaceAll(/(?<!\\)\//g, '\\/')),
      'it was wrapped in a JSON string': (body) =>
        body[0] === 0x22
          ? reserialize(body, (value) => (typeof value === 'string' ? value : undefined))
          : undefined,
      'it was read as Latin-1 and written as UTF-8': toLatin1,
    },
  ),
  ...toChanges<Uint8Array>(
    { part: 'body', fix: `The signing code did not have the bytes, so it signed something else. ${RAW}` },
    {
      'an empty body was signed instead': () => new Uint8Array(),
      'the string [object Object] was signed instead': () => bytes.encode('[object Object]'),
    },
  ),
];

/** Larger bodies are not tried with two changes. */
const MAX_PAIRS_BYTES = 32_768;

export function listBodies(body: Uint8Array): readonly Variant<Uint8Array>[] {
  return listVariants(body, {
    changes: BODY_CHANGES,
    depth: 2,
    // Inflating can make a small body large.
    continues: ({ length }) => length <= MAX_PAIRS_BYTES,
    keyOf: toByteKey,
  });
}

export const BODY_CHANGE_COUNT = BODY_CHANGES.length;

/** Creates each body on demand, because all of them together can need a gigabyte. */
export function* eachChangedBody(body: Uint8Array): Generator<Variant<Uint8Array>, void> {
  for (const { undo, ...change } of BODY_CHANGES) {
    const value = undo(body);
    if (value !== undefined && Buffer.compare(value, body) !== 0) yield { value, changes: [change] };
  }
}

function startsWith(body: Uint8Array, start: Uint8Array): boolean {
  return start.every((byte, index) => body[index] === byte);
}

function asBuffer(body: Uint8Array): Buffer {
  return Buffer.from(body.buffer, body.byteOffset, body.length);
}

function cutEnd(body: Uint8Array, end: Uint8Array): Uint8Array | undefined {
  const at = body.length - end.length;
  return at >= 0 && startsWith(body.subarray(at), end) ? body.subarray(0, at) : undefined;
}

function fromBase64(body: Uint8Array): Uint8Array | undefined {
  const text = asBuffer(body).toString('latin1').trim();
  return isBase64(text) ? Buffer.from(text, 'base64') : undefined;
}

function toLatin1(body: Uint8Array): Uint8Array | undefined {
  const text = orUndefined(() => toText(body));
  return text === undefined || /[^\0-\xff]/.test(text) ? undefined : Buffer.from(text, 'latin1');
}

function rewrite(body: Uint8Array, change: (text: string) => string | undefined): Uint8Array | undefined {
  const text = orUndefined(() => change(toText(body)));
  return text === undefined ? undefined : bytes.encode(text);
}

function reserialize(
  body: Uint8Array,
  write: (value: unknown) => string | undefined,
): Uint8Array | undefined {
  const parsed = toValue(body);
  if (parsed === undefined) return undefined;
  const text = orUndefined(() => write(parsed.value));
  return text === undefined ? undefined : bytes.encode(text);
}

const toText = onceForEach((body) => utf8.decode(body));

const toValue = onceForEach((body) =>
  orUndefined(() => ({ value: JSON.parse(toText(body).replace(/^\ufeff/, '')) as unknown })),
);

/** Several changes need the same result, which takes a long time to compute for a large body. */
function onceForEach<Value>(make: (body: Uint8Array) => Value): (body: Uint8Array) => Value {
  const made = new WeakMap<Uint8Array, { readonly value: Value }>();
  return (body) => {
    const known = made.get(body) ?? { value: make(body) };
    made.set(body, known);
    return known.value;
  };
}

/** Python and PHP escape every non-ASCII character by default. */
function writeAscii(json: string): string {
  return json.replaceAll(
    /[\u0080-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

function restyle(indent?: string): (body: Uint8Array) => Uint8Array | undefined {
  return (body) => reserialize(body, (value) => JSON.stringify(value, null, indent));
}

/** The default style of Python's `json.dumps`, which also escapes non-ASCII characters. */
function writeSpaced(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(writeSpaced).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const fields = Object.entries(value).map(([key, field]) => `${JSON.stringify(key)}: ${writeSpaced(field)}`);
  return `{${fields.join(', ')}}`;
}

/** Go's maps and canonical JSON have sorted keys. */
function sortKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortKeys);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([key, item]) => [key, sortKeys(item)]));
}

// --- The secret ---

const SECRET_CHANGES = [
  ...toChanges<Uint8Array>(
    { part: 'secret', fix: 'Set the secret again, without the characters that were pasted along with it.' },
    {
      'it has white space around it': onString((text) => text.trim()),
      'it has quotes around it': onString((text) => /^(["'`])(.*)\1$/s.exec(text)?.[2]),
      'it starts with the name of its variable': without(/^(?:export\s+)?[A-Za-z_][A-Za-z0-9_]*\s*=\s*/),
      'it starts with a byte order mark': without(/^\xef\xbb\xbf/),
      'it is percent-encoded': onString((text) =>
        text.includes('%') ? decodeURIComponent(text) : undefined,
      ),
    },
  ),
  ...toChanges<Uint8Array>(
    {
      part: 'secret',
      fix: 'The other side signs with extra characters around the secret. Trim the value that the other side reads from a file or a setting.',
    },
    {
      'the other side has a newline at its end': onString((text) => `${text}\n`),
      'the other side has a CRLF at its end': onString((text) => `${text}\r\n`),
      'the other side has a space at its end': onString((text) => `${text} `),
      'the other side has double quotes around it': onString((text) => `"${text}"`),
      'the other side has single quotes around it': onString((text) => `'${text}'`),
    },
  ),
  ...toChanges<Uint8Array>(
    {
      part: 'secret',
      fix: 'Pass the decoded bytes as the secret: `secret: Buffer.from(secret, encoding)`.',
    },
    {
      'it is the hex encoding of the key': onString((text) =>
        isHex(text) ? Buffer.from(text, 'hex').toString('latin1') : undefined,
      ),
      'it is the base64 encoding of the key': onString((text) =>
        isBase64(text) ? Buffer.from(text, 'base64').toString('latin1') : undefined,
      ),
      'it has a prefix that is not part of the key': without(/^[A-Za-z]+_/),
    },
  ),
  ...toChanges<Uint8Array>(
    { part: 'secret', fix: 'The key is the string itself. Pass the string unchanged, and do not decode it.' },
    {
      'it was decoded, but the key is the hex string': onString((text) =>
        Buffer.from(text, 'latin1').toString('hex'),
      ),
      'it was decoded, but the key is the base64 string': onString((text) =>
        Buffer.from(text, 'latin1').toString('base64'),
      ),
      'it was decoded, but the key is the base64url string': onString((text) =>
        Buffer.from(text, 'latin1').toString('base64url'),
      ),
    },
  ),
];

/** A longer secret is probably a file that was named by mistake, so no changes are tried on it. */
const MAX_SECRET_BYTES = 4_096;

export function listSecrets(secret: Uint8Array, depth: number): readonly Variant<Uint8Array>[] {
  const rounds = secret.length > MAX_SECRET_BYTES ? 0 : depth;
  return listVariants(secret, { changes: SECRET_CHANGES, depth: rounds, keyOf: toByteKey }).filter(
    ({ value }) => value.length > 0,
  );
}

/** The string is Latin-1, which keeps every byte even if the secret is not UTF-8. */
function onString(
  change: (text: string) => string | undefined,
): (secret: Uint8Array) => Uint8Array | undefined {
  return (secret) => {
    const text = orUndefined(() => change(Buffer.from(secret).toString('latin1')));
    return text ? Buffer.from(text, 'latin1') : undefined;
  };
}

function without(pattern: RegExp): (secret: Uint8Array) => Uint8Array | undefined {
  return onString((text) => (pattern.test(text) ? text.replace(pattern, '') : undefined));
}

function isHex(text: string): boolean {
  return text.length % 2 === 0 && /^[0-9a-f]{2,}$/i.test(text);
}

function isBase64(text: string): boolean {
  const digits = text.replace(/={1,2}$/, '');
  return digits.length >= 4 && !/[^0-9A-Za-z+/_-]/.test(digits);
}

// --- The signature ---

const SIGNATURE_CHANGES = [
  ...toChanges<string>(
    { part: 'signature', fix: 'Pass only the header value, exactly as it was received.' },
    {
      'it has white space around it': (text) => text.trim(),
      'it has quotes around it': (text) => /^(["'`])(.*)\1$/s.exec(text)?.[2],
      'it starts with the name of its header': (text) => /^[\w-]+:\s*(.+)$/s.exec(text)?.[1],
      'the header was sent more than once': (text) =>
        text.includes(',') ? text.split(',')[0]?.trim() : undefined,
    },
  ),
  ...toChanges<string>(
    {
      part: 'signature',
      fix: 'Set the text before the digits as `signature: { prefix }` in the receiver, and pass it here with --prefix.',
    },
    { 'it has a prefix': (text) => /^[\w-]+[=,:](?=.{43})(.+)$/s.exec(text)?.[1] },
  ),
  ...toChanges<string>(
    {
      part: 'signature',
      fix: 'The header was treated as part of a URL. Copy it from the request as it was received.',
    },
    {
      'it is percent-encoded': (text) =>
        text.includes('%') ? orUndefined(() => decodeURIComponent(text)) : undefined,
      'its plus signs became spaces': (text) => (text.includes(' ') ? text.replaceAll(' ', '+') : undefined),
    },
  ),
  ...toChanges<string>(
    { part: 'signature', fix: 'The digits were encoded twice. Encode the 32 bytes of the HMAC once.' },
    {
      'it is the base64 encoding of the hex digits': (text) =>
        text.length === 88 ? Buffer.from(text, 'base64').toString('latin1') : undefined,
      'it is the hex encoding of the base64 digits': (text) =>
        Buffer.from(text, 'hex').toString('latin1') || undefined,
    },
  ),
];

/** No known change makes a header with one signature longer than this. */
const MAX_SIGNATURE_LENGTH = 4_096;

/** Lists the 32-byte MACs that the signature can stand for: first in this format, then after known changes. */
export function listMacs(signature: string, format: SignatureFormat): readonly Variant<Uint8Array>[] {
  if (signature.length > MAX_SIGNATURE_LENGTH) return [];
  const strict = toMac(signature, format);
  const asGiven = strict === undefined ? [] : [{ value: strict, changes: [] }];
  const changed = listVariants(signature, {
    changes: SIGNATURE_CHANGES,
    depth: 2,
    keyOf: (text) => text,
  }).flatMap(({ value, changes }) => {
    const mac = toMac(value, {});
    return mac === undefined
      ? []
      : [{ value: mac, changes: changes.length > 0 ? changes : [otherFormat(format)] }];
  });
  return [...asGiven, ...changed];
}

function otherFormat({ encoding, prefix }: SignatureFormat): Change {
  return {
    part: 'signature',
    what: prefix ? 'it does not have this prefix' : `its encoding is not ${encoding}`,
    fix: prefix
      ? 'Omit --prefix and `signature: { prefix }`.'
      : 'Omit --encoding and `signature: { encoding }`. The encoding is clear from the length of the signature.',
  };
}

function toMac(value: string, { encoding, prefix = '' }: SignatureFormat): Uint8Array | undefined {
  if (!value.startsWith(prefix)) return undefined;
  const digits = value.slice(prefix.length);
  for (const name of encoding === undefined ? SIGNATURE_ENCODINGS : [encoding]) {
    const mac = Buffer.from(digits, name);
    const encoded = mac.toString(name);
    // Node skips characters that it cannot decode, so this checks that the bytes encode to the same digits.
    const same = name === 'hex' ? digits.toLowerCase() : digits.replace(/^(.{43})=$/, '$1');
    if (mac.length === 32 && same === encoded.replace(/=$/, '')) return mac;
  }
  return undefined;
}
