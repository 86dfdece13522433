/** Writing a body's text or JSON in another way, as parsers, proxies and other languages do. */
import { whereItWorks } from './variant.js';

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Changes the text; `undefined` where the bytes are not UTF-8 or the text does not lend itself to it. */
export function rewrite(
  body: Uint8Array,
  change: (text: string) => string | undefined,
): Uint8Array | undefined {
  const text = whereItWorks(() => change(utf8.decode(body)));
  return text === undefined ? undefined : new TextEncoder().encode(text);
}

/** Parses the JSON and writes it in another way; `undefined` where there is no JSON. */
export function reserialise(
  body: Uint8Array,
  write: (value: unknown) => string | undefined,
): Uint8Array | undefined {
  return rewrite(body, (text) => write(JSON.parse(text.replace(/^\ufeff/, ''))));
}

/** Escapes whatever is not ASCII, as Python and PHP do by default. */
export function writeAscii(json: string): string {
  return json.replaceAll(
    /[\u0080-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** As Python's `json.dumps` writes by default. */
export function writeSpaced(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(writeSpaced).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return writeAscii(JSON.stringify(value));
  const entries = Object.entries(value).map(
    ([key, item]) => `${writeAscii(JSON.stringify(key))}: ${writeSpaced(item)}`,
  );
  return `{${entries.join(', ')}}`;
}

/** Compact, with the keys of each object in order, as Go's maps and canonical JSON are written. */
export function writeSorted(value: unknown): string {
  return JSON.stringify(sort(value));
}

function sort(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sort);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([key, item]) => [key, sort(item)]));
}
