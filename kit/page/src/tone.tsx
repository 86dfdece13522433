import type { Tone } from '../../src/inspector/api.js';

const SIGNS: Readonly<Record<Tone, string>> = { good: '✓', bad: '✕', doubtful: '!', neutral: '·' };

/** The tone is visible from the mark's shape as well as from its colour. */
export function Mark({ tone }: { readonly tone: Tone }) {
  return (
    <span class={`mark ${tone}`} aria-hidden="true">
      {SIGNS[tone]}
    </span>
  );
}
