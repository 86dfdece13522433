import { useId, useMemo, useState } from 'preact/hooks';
import { indentJson } from '../../src/exact-json.js';
import './bytes.css';
import { toPlain } from './plain';

/** Browsers take too long to lay out a larger text. */
const PAGE_BYTES = 32_768;
const MAX_LINES = 24;

type Form = 'json' | 'text';
const FORMS: readonly (readonly [Form, string])[] = [
  ['json', 'Indented'],
  ['text', 'Exact text'],
];

/** Nothing in the untrusted body is executed. */
export function Bytes({ bytes, label }: { readonly bytes: Uint8Array; readonly label: string }) {
  const text = useMemo(() => decodeUtf8(bytes), [bytes]);
  const indented = useMemo(() => (text === undefined ? undefined : toIndented(text)), [text]);
  const [chosen, setChosen] = useState<Form>();
  const [page, setPage] = useState({ of: bytes, start: 0 });
  const group = useId();
  const form = indented === undefined ? 'text' : (chosen ?? 'json');

  if (bytes.length === 0) return <p class="faint">No body.</p>;
  const shown = form === 'json' && indented !== undefined ? indented : bytes;
  const size = PAGE_BYTES;
  const start = page.of === shown && page.start < shown.length ? page.start - (page.start % size) : 0;
  const end = Math.min(start + size, shown.length);
  const turn = (to: number) => setPage({ of: shown, start: to });
  const content = textOf(shown, start, end);
  return (
    <div class="bytes">
      <div class="bytes-bar">
        <fieldset class="bytes-forms" aria-label={`Form of: ${label}`}>
          {FORMS.filter(([each]) => each !== 'json' || indented !== undefined).map(([each, title]) => (
            <label key={each}>
              <input type="radio" name={group} checked={each === form} onChange={() => setChosen(each)} />
              {title}
            </label>
          ))}
        </fieldset>
        <span class="faint">
          {formatBytes(bytes.length)}
          {text === undefined && ', not UTF-8'}
        </span>
        {shown.length > size && (
          <span class="bytes-pages">
            <button type="button" disabled={start === 0} onClick={() => turn(0)}>
              First
            </button>
            <button type="button" disabled={start === 0} onClick={() => turn(start - size)}>
              Previous
            </button>
            <span>
              {start.toLocaleString('en')} to {(end - 1).toLocaleString('en')}
            </span>
            <button type="button" disabled={end === shown.length} onClick={() => turn(end)}>
              Next
            </button>
            <button
              type="button"
              disabled={end === shown.length}
              onClick={() => turn(shown.length - 1 - ((shown.length - 1) % size))}
            >
              Last
            </button>
          </span>
        )}
      </div>
      {form === 'text' && text === undefined && <p class="faint">Bytes that are not UTF-8 are shown as �.</p>}
      {/* Not an element with text: this one takes the focus, scrolls and selects by itself. */}
      <textarea
        class="bytes-box"
        aria-label={label}
        readOnly
        spellcheck={false}
        rows={Math.min(content.split('\n').length, MAX_LINES)}
        value={content}
      />
    </div>
  );
}

export function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

export function decodeBase64(base64: string): Uint8Array<ArrayBuffer> {
  const binary = atob(base64);
  const bytes = new Uint8Array(binary.length);
  for (let index = 0; index < bytes.length; index += 1) bytes[index] = binary.charCodeAt(index);
  return bytes;
}

function formatBytes(count: number): string {
  return count === 1 ? '1 byte' : `${count.toLocaleString('en')} bytes`;
}

function textOf(bytes: Uint8Array, start: number, end: number): string {
  const part = bytes.subarray(toCharacterStart(bytes, start), toCharacterStart(bytes, end));
  return toPlain(new TextDecoder('utf-8', { ignoreBOM: true }).decode(part), { lines: true });
}

/** No character may be split between two pages. */
function toCharacterStart(bytes: Uint8Array, at: number): number {
  let start = at;
  while (start < bytes.length && start < at + 3 && ((bytes[start] ?? 0) & 0xc0) === 0x80) start += 1;
  return start;
}

function toIndented(text: string): Uint8Array | undefined {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== 'object' || value === null) return undefined;
  } catch {
    return undefined;
  }
  return new TextEncoder().encode(indentJson(text));
}
