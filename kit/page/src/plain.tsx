import { Time } from './time';

/** Matches characters that are invisible or change other text, such as bidirectional marks and lone surrogates. */
const HIDDEN =
  /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/gu;

/** Hidden characters become visible, because the string is not trusted. */
export function Plain({ text }: { readonly text: string }) {
  return <bdi>{toPlain(text)}</bdi>;
}

/** Hidden characters become escapes such as `\u{202e}`. With `lines`, tabs and line ends stay. */
export function toPlain(text: string, { lines = false } = {}): string {
  return text.replace(HIDDEN, (character) => {
    if (lines && /[\n\t]/.test(character)) return character;
    return `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`;
  });
}

const PARTS = /(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z|`[^`]+`)/;

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
