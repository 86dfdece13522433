import { useRef, useState } from 'preact/hooks';
import type { ServiceReport } from '../../../src/inspector/api.js';
import { attempt, tellReader } from '../notice';
import { act } from '../server';
import { follow, go, hrefOf, param } from '../url';

const OTHER = '*';

export function Fire({ examples }: { readonly examples: ServiceReport['examples'] }) {
  const types = Object.keys(examples);
  const chosen = [...types, OTHER].find((type) => type === param('fire')) ?? types[0] ?? OTHER;
  const [other, setOther] = useState('');
  /** One draft per type, so that neither a response nor another type replaces edited text. */
  const [drafts, setDrafts] = useState<Readonly<Record<string, string>>>({});
  const [fired, setFired] = useState<string>();
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
    const made = await attempt(
      () => act('fire', { type, payload: payload.value }),
      ({ id }) => `Fired ${type} as ${id}.`,
    );
    setFired(made?.id);
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
          {fired !== undefined && (
            <a class="button" href={hrefOf({ view: 'events', event: fired })} onClick={follow}>
              See its deliveries
            </a>
          )}
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

function readPayload(text: string): Payload {
  let rounded: string | undefined;
  try {
    const value: unknown = JSON.parse(text, function read(_, each, context?: { readonly source?: string }) {
      const source = context?.source;
      if (typeof each === 'number' && source !== undefined && toDigits(source) !== toDigits(`${each}`)) {
        rounded ??= source;
      }
      return each;
    });
    if (rounded !== undefined) {
      const problem = `The number ${rounded} would be rounded. Write it as a string instead.`;
      return { valid: false, problem, at: text.indexOf(rounded) };
    }
    if (isObject(value)) return { valid: true, value };
    return { valid: false, problem: 'A payload must be a JSON object. Start it with {.', at: 0 };
  } catch (error) {
    const message = error instanceof Error ? error.message : '';
    const at = Number(/position (\d+)/.exec(message)?.[1] ?? 0);
    return { valid: false, problem: `This is not valid JSON: ${message}.`, at };
  }
}

/** Only the significant digits can change, because a double always keeps the scale. */
function toDigits(number: string): string {
  return number
    .replace(/e.*$/i, '')
    .replace(/[-.]/g, '')
    .replace(/^0+|0+$/g, '');
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
