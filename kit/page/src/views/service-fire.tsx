import { type Node, type ParseError, parseTree, printParseErrorCode } from 'jsonc-parser';
import { useRef, useState } from 'preact/hooks';
import type { ServiceReport } from '../../../src/inspector/api.js';
import { attempt, tellReader } from '../notice';
import { act } from '../server';
import { go, param } from '../url';

/** What the URL has in place of a type that is typed in. */
const OTHER = '*';

/** Fires an event of any type, with an editable payload. */
export function Fire({ examples }: { readonly examples: ServiceReport['examples'] }) {
  const types = Object.keys(examples);
  const chosen = [...types, OTHER].find((type) => type === param('fire')) ?? types[0] ?? OTHER;
  const [other, setOther] = useState('');
  /** By type, so that neither an answer of the server nor another type replaces what was edited. */
  const [drafts, setDrafts] = useState<Readonly<Record<string, string>>>({});
  const area = useRef<HTMLTextAreaElement>(null);

  const type = chosen === OTHER ? other.trim() : chosen;
  const example = JSON.stringify(examples[chosen] ?? {}, null, 2);
  const text = drafts[chosen] ?? example;
  const payload = readPayload(text);

  async function submit(): Promise<void> {
    if (!payload.valid) {
      area.current?.focus();
      area.current?.setSelectionRange(payload.at, payload.at);
      tellReader(`Nothing was fired. ${payload.problem}`, true);
      return;
    }
    await attempt(
      () => act('fire', { type, payload: payload.value }),
      ({ id }) => `Fired ${type} as ${id}.`,
    );
  }

  return (
    <section aria-labelledby="fire-title">
      <h3 id="fire-title">Fire an event</h3>
      <form
        class="fire"
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <label>
          Type
          <select
            value={chosen}
            onChange={({ currentTarget: { value } }) => go({ fire: value }, { replace: true })}
          >
            {types.map((each) => (
              <option key={each} value={each}>
                {each}
              </option>
            ))}
            <option value={OTHER}>another type …</option>
          </select>
        </label>
        {chosen === OTHER && (
          <label>
            Name of the type
            <input
              required
              placeholder="transfer.reversed"
              value={other}
              onInput={({ currentTarget: { value } }) => setOther(value)}
            />
          </label>
        )}
        <label>
          Payload
          <textarea
            ref={area}
            rows={Math.min(16, text.split('\n').length + 1)}
            spellcheck={false}
            value={text}
            aria-invalid={!payload.valid}
            aria-describedby="payload-problem"
            onInput={({ currentTarget: { value } }) => setDrafts({ ...drafts, [chosen]: value })}
          />
        </label>
        <p id="payload-problem" class="bad">
          {payload.valid ? '' : payload.problem}
        </p>
        <div class="buttons">
          <button type="submit" class="primary">
            Fire
          </button>
          {text !== example && (
            <button type="button" onClick={() => setDrafts({ ...drafts, [chosen]: example })}>
              Use the example
            </button>
          )}
        </div>
      </form>
    </section>
  );
}

type Payload =
  | { readonly valid: true; readonly value: Readonly<Record<string, unknown>> }
  | { readonly valid: false; readonly problem: string; readonly at: number };

/** Reads a JSON object, or says where it is none, or where JavaScript would change it. */
function readPayload(text: string): Payload {
  const refuse = (problem: string, at: number): Payload => ({ valid: false, problem, at });
  const errors: ParseError[] = [];
  const tree = parseTree(text, errors, {
    ...{ disallowComments: true, allowTrailingComma: false, allowEmptyContent: false },
  });
  const [first] = errors;
  if (first !== undefined) {
    const words = printParseErrorCode(first.error).replace(
      /\B[A-Z]/g,
      (letter) => ` ${letter.toLowerCase()}`,
    );
    return refuse(
      `This is not JSON at ${placeOf(text, first.offset)}: ${words.toLowerCase()}.`,
      first.offset,
    );
  }
  if (tree?.type !== 'object') return refuse('A payload is a JSON object. Begin it with {.', 0);
  const changed = findChanged(tree, text);
  if (changed !== undefined) return refuse(changed.problem, changed.at);
  try {
    const value: unknown = JSON.parse(text);
    if (isObject(value)) return { valid: true, value };
  } catch {
    // The parser above takes some text that JSON.parse refuses.
  }
  return refuse('This is not JSON.', 0);
}

function placeOf(text: string, offset: number): string {
  const lines = text.slice(0, offset).split('\n');
  return `line ${lines.length}, column ${(lines.at(-1) ?? '').length + 1}`;
}

/** What `JSON.parse` would change without a word: a number that it cannot hold, and a name that occurs twice. */
function findChanged(
  node: Node,
  text: string,
): { readonly problem: string; readonly at: number } | undefined {
  const { type, children = [], offset, length } = node;
  if (type === 'number') {
    const source = text.slice(offset, offset + length);
    const isExact = toDigits(source) === toDigits(`${Number(source)}`);
    if (isExact) return undefined;
    const problem = `The number at ${placeOf(text, offset)} would be rounded. Write it as a string.`;
    return { problem, at: offset };
  }
  if (type === 'object') {
    const names = children.map((property) => property.children?.[0]?.value);
    const index = names.findIndex((name, each) => names.indexOf(name) !== each);
    const twice = children[index];
    if (twice !== undefined) {
      return { problem: `The name at ${placeOf(text, twice.offset)} occurs twice.`, at: twice.offset };
    }
  }
  for (const child of children) {
    const found = findChanged(child, text);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** The significant digits of a number, whose scale a double always keeps. */
function toDigits(number: string): string {
  return number
    .replace(/e.*$/i, '')
    .replace(/[-.]/g, '')
    .replace(/^0+|0+$/g, '');
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
