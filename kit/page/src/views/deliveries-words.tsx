import type { AttemptKind } from '../../../src/inspector/api.js';

/** How each kind is shown: with a sign and a word, because not everybody sees the color. */
export const KINDS: Readonly<Record<AttemptKind, { readonly sign: string; readonly word: string }>> = {
  accepted: { sign: '✓', word: 'Accepted' },
  'wrongly-accepted': { sign: '‼', word: 'Accepted although wrong' },
  'without-effect': { sign: '○', word: 'Without effect' },
  refused: { sign: '✕', word: 'Refused' },
  failed: { sign: '!', word: 'Failed' },
  unanswered: { sign: '?', word: 'Unanswered' },
};

export function KindMark({ kind }: { readonly kind: AttemptKind }) {
  const { sign, word } = KINDS[kind];
  return (
    <span class={`kind kind-${kind}`}>
      <span class="kind-sign" aria-hidden="true">
        {sign}
      </span>
      {word}
    </span>
  );
}

export function formatMs(ms: number): string {
  return ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(2)} s`;
}
