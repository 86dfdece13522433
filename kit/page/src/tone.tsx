import type { Tone } from '../../src/inspector/api.js';

const SIGNS: Readonly<Record<Tone, string>> = { good: '✓', bad: '✕', doubtful: '!', neutral: '·' };

export function Mark({ tone }: { readonly tone: Tone }) {
  return (
    <span class={`mark ${tone}`} aria-hidden="true">
      {SIGNS[tone]}
    </span>
  );
}
