import { Time } from './time';

/** Controls, bidirectional marks, zero-width characters and halves of pairs, which are not seen or change how other text is shown. */
const HIDDEN =
  /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/gu;

/** A string from elsewhere on one line, such as an id or an error: what is hidden in it is shown. */
export function Plain({ text }: { readonly text: string }) {
  return <bdi>{toPlain(text)}</bdi>;
}

/** The string with `\u{202e}` in place of hidden characters. With `lines`, tabs and line ends stay. */
export function toPlain(text: string, { lines = false } = {}): string {
  return text.replace(HIDDEN, (character) => {
    if (lines && /[\n\t]/.test(character)) return character;
    return `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`;
  });
}

const PARTS = /(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z|`[^`]+`)/;

/** A sentence of the server: its times are shown in the zone of the page, and its code as code. */
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
