import { Time } from './time';

/**
 * Matches control characters, bidirectional marks, zero-width characters and lone surrogates. They are invisible or
 * change other text.
 */
const HIDDEN =
  /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/gu;

/** Shows an untrusted string, such as an id or an error, on one line. Hidden characters become visible. */
export function Plain({ text }: { readonly text: string }) {
  return <bdi>{toPlain(text)}</bdi>;
}

/**
 * Returns the string with escapes such as `\u{202e}` in place of hidden characters. With `lines`, keeps tabs and line
 * ends.
 */
export function toPlain(text: string, { lines = false } = {}): string {
  return text.replace(HIDDEN, (character) => {
    if (lines && /[\n\t]/.test(character)) return character;
    return `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`;
  });
}

const PARTS = /(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z|`[^`]+`)/;

/** Shows a sentence from the server. Times are shown in the zone of the page, and code is formatted as code. */
export function Sentence({ text }: { readonly text: string }) {
  return (
    <bdi>
      {text.split(PARTS).map((part, index) => {
        if (index % 2 === 0) return toPlain(part);
        return part.startsWith('`') ? (
          <code key={index}>{toPlain(part.slice(1, -1))}</code>
        ) : (
          <Time key={index} at={part} full />
        );
      })}
    </bdi>
  );
}
