import type { Tone } from '../../src/inspector/api.js';

const SIGNS: Readonly<Record<Tone, string>> = { good: '✓', bad: '✕', doubtful: '!', neutral: '·' };

/** A status mark whose tone is visible from its shape as well as its colour. */
export function Mark({ tone }: { readonly tone: Tone }) {
  return (
    <span class={`mark ${tone}`} aria-hidden="true">
      {SIGNS[tone]}
    </span>
  );
}
