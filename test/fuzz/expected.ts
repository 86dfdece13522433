/**
 * What the docs promise for a delivery, written without the code of stablehooks: the signature by node:crypto, the
 * event by JSON.parse and the rules of docs/design.md.
 */
import { createHmac } from 'node:crypto';

/** How the signature of a receiver is written. */
export interface Format {
  readonly encoding: 'hex' | 'base64' | 'base64url' | undefined;
  readonly prefix: string;
}

/** The index of the secret that made the signature over these bytes; or why there is none. */
export function judgeSignature(
  signature: string | null | undefined,
  { encoding, prefix }: Format,
  { secrets, body }: { readonly secrets: readonly (string | Uint8Array)[]; readonly body: Uint8Array },
): number | 'missing' | 'malformed' | 'mismatch' {
  if (signature === undefined || signature === null || signature === '') return 'missing';
  if (signature.slice(0, prefix.length) !== prefix) return 'malformed';
  const digits = signature.slice(prefix.length);
  const mac =
    encoding === undefined
      ? (fromHex(digits) ??
        fromBase64(digits, `${ALPHANUMERIC}+/`) ??
        fromBase64(digits, `${ALPHANUMERIC}-_`))
      : encoding === 'hex'
        ? fromHex(digits)
        : fromBase64(digits, encoding === 'base64' ? `${ALPHANUMERIC}+/` : `${ALPHANUMERIC}-_`);
  if (mac === undefined) return 'malformed';
  const index = secrets.findIndex(
    (secret) => createHmac('sha256', secret).update(body).digest('hex') === mac,
  );
  return index === -1 ? 'mismatch' : index;
}

const HEX = '0123456789abcdef';
const ALPHANUMERIC = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';

/** 64 hex digits in lower case; `undefined` for everything else. */
function fromHex(digits: string): string | undefined {
  if (digits.length !== 64) return undefined;
  const ascii = [...digits].map((digit) => (digit >= 'A' && digit <= 'F' ? digit.toLowerCase() : digit));
  return ascii.every((digit) => HEX.includes(digit)) ? ascii.join('') : undefined;
}

/** The 32 bytes of 43 digits, as hex; one `=` may follow. The two bits that the last digit has too many must be 0. */
function fromBase64(digits: string, alphabet: string): string | undefined {
  const bare = digits.length === 44 && digits.endsWith('=') ? digits.slice(0, 43) : digits;
  if (bare.length !== 43) return undefined;
  let bits = '';
  for (const digit of bare) {
    const value = alphabet.indexOf(digit);
    if (value === -1) return undefined;
    bits += value.toString(2).padStart(6, '0');
  }
  if (!bits.endsWith('00')) return undefined;
  return (bits.slice(0, 256).match(/.{4}/g) ?? []).map((four) => HEX[Number.parseInt(four, 2)]).join('');
}

/** An event as JSON.parse gives it. */
export interface ParsedJson {
  readonly id: string;
  readonly type: string;
  readonly created_at: string;
  readonly payload: Readonly<Record<string, unknown>>;
  readonly [key: string]: unknown;
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** The event in these bytes; `undefined` if they are none. One byte order mark is ignored, as RFC 8259 allows. */
export function judgeEvent(body: Uint8Array): ParsedJson | undefined {
  let value: unknown;
  try {
    value = JSON.parse(decoder.decode(body).replace(/^\uFEFF/, ''));
  } catch {
    return undefined;
  }
  if (!isPlain(value)) return undefined;
  const { id, type, created_at, payload, delivered } = value;
  const isEvent =
    isName(id) &&
    isName(type) &&
    isTime(created_at) &&
    isPlain(payload) &&
    (delivered === undefined || delivered === true || delivered === false);
  return isEvent ? (value as ParsedJson) : undefined;
}

function isPlain(value: unknown): value is Readonly<Record<string, unknown>> {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}

/** 1 to 512 bytes of UTF-8 without control characters and without halves of surrogate pairs. */
function isName(value: unknown): boolean {
  if (typeof value !== 'string' || value === '' || Buffer.byteLength(value) > 512) return false;
  return Array.from(value).every((character) => {
    const code = character.codePointAt(0) ?? 0;
    const isControl = code < 0x20 || (code >= 0x7f && code < 0xa0);
    return !isControl && !(code >= 0xd800 && code < 0xe000);
  });
}

/** An RFC 3339 date-time of a day that exists. A leap second is 23:59:60 in UTC. */
function isTime(value: unknown): boolean {
  if (typeof value !== 'string') return false;
  const parts =
    /^([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(\.[0-9]+)?([Zz]|([+-])([0-9]{2}):([0-9]{2}))$/.exec(
      value,
    );
  if (parts === null || parts[0] !== value) return false;
  const [year, month, day, hour, minute, second] = parts.slice(1, 7).map(Number) as [
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  const isLeapYear = (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0;
  const days = [31, isLeapYear ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1];
  const [offsetHour, offsetMinute] = [Number(parts[10] ?? 0), Number(parts[11] ?? 0)];
  if (days === undefined || day < 1 || day > days || hour > 23 || minute > 59 || second > 60) return false;
  if (offsetHour > 23 || offsetMinute > 59) return false;
  const offset = (offsetHour * 60 + offsetMinute) * (parts[9] === '-' ? -1 : 1);
  const utcMinute = (hour * 60 + minute - offset + 2 * 1_440) % 1_440;
  return second < 60 || utcMinute === 1_439;
}

/** Whether two values from JSON are the same, keys in order included. A stack of its own, because values nest deeply. */
export function sameJson(one: unknown, other: unknown): boolean {
  const waiting: [unknown, unknown][] = [[one, other]];
  for (let pair = waiting.pop(); pair !== undefined; pair = waiting.pop()) {
    const [left, right] = pair;
    if (Object.is(left, right)) continue;
    if (typeof left !== 'object' || typeof right !== 'object' || left === null || right === null)
      return false;
    if (Array.isArray(left) !== Array.isArray(right)) return false;
    const [keys, others] = [Object.keys(left), Object.keys(right)];
    if (keys.length !== others.length || keys.some((key, at) => key !== others[at])) return false;
    // By descriptor: `__proto__` is a key like any other.
    const at = (value: object, key: string): unknown => Object.getOwnPropertyDescriptor(value, key)?.value;
    for (const key of keys) waiting.push([at(left, key), at(right, key)]);
  }
  return true;
}
