/**
 * What the docs promise for a delivery, written without the code of stablehooks: the signature by node:crypto, the
 * event by JSON.parse and the rules of docs/internals/design.md.
 */
import { createHmac } from 'node:crypto';
import type { UnknownEvent } from 'stablehooks';

/** How the signature of a receiver is written. */
export interface Format {
  readonly encoding: 'hex' | 'base64' | 'base64url' | undefined;
  readonly prefix: string;
}

/** The digits of 32 bytes. The last digit of base64 has two bits too many, which must be 0; one `=` may follow. */
const DIGITS = {
  hex: /^[0-9A-Fa-f]{64}$/,
  base64: /^[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=?$/,
  base64url: /^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]=?$/,
} as const;

/** The index of the secret that made the signature over these bytes; or why there is none. */
export function judgeSignature(
  signature: string | null | undefined,
  { encoding, prefix }: Format,
  { secrets, body }: { readonly secrets: readonly (string | Uint8Array)[]; readonly body: Uint8Array },
): number | 'missing' | 'malformed' | 'mismatch' {
  if (signature === undefined || signature === null || signature === '') return 'missing';
  const digits = signature.slice(prefix.length);
  const encodings = encoding === undefined ? (['hex', 'base64', 'base64url'] as const) : [encoding];
  const written = encodings.find((name) => DIGITS[name].test(digits));
  if (signature.slice(0, prefix.length) !== prefix || written === undefined) return 'malformed';
  const mac = Buffer.from(digits, written).toString('hex');
  const index = secrets.findIndex((key) => createHmac('sha256', key).update(body).digest('hex') === mac);
  return index === -1 ? 'mismatch' : index;
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** The event in these bytes; `undefined` if they are none. One byte order mark is ignored, as RFC 8259 allows. */
export function judgeEvent(body: Uint8Array): UnknownEvent | undefined {
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
  return isEvent ? (value as unknown as UnknownEvent) : undefined;
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

const TIME =
  /^([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.[0-9]+)?(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))$/;

/** An RFC 3339 date-time of a day that exists. */
function isTime(value: unknown): boolean {
  const parts = typeof value === 'string' ? TIME.exec(value) : null;
  if (parts === null) return false;
  const part = (at: number) => Number(parts[at] ?? 0);
  const [year, month, day, hour, minute, second] = [part(1), part(2), part(3), part(4), part(5), part(6)];
  const isLeapYear = (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0;
  const days = [31, isLeapYear ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1] ?? 0;
  if (day < 1 || day > days || hour > 23 || minute > 59 || part(8) > 23 || part(9) > 59) return false;
  return second < 60;
}

/** Whether two values from JSON are the same, keys in order included. A stack of its own, because values nest deeply. */
export function sameJson(one: unknown, other: unknown): boolean {
  const waiting: [unknown, unknown][] = [[one, other]];
  // By descriptor: `__proto__` is a key like any other.
  const at = (value: object, key: string): unknown => Object.getOwnPropertyDescriptor(value, key)?.value;
  for (let pair = waiting.pop(); pair !== undefined; pair = waiting.pop()) {
    const [left, right] = pair;
    if (Object.is(left, right)) continue;
    if (typeof left !== 'object' || typeof right !== 'object' || left === null || right === null)
      return false;
    if (Array.isArray(left) !== Array.isArray(right)) return false;
    const [keys, others] = [Object.keys(left), Object.keys(right)];
    if (keys.length !== others.length || keys.some((key, place) => key !== others[place])) return false;
    for (const key of keys) waiting.push([at(left, key), at(right, key)]);
  }
  return true;
}
