import { signal } from '@preact/signals';
import { onLive } from './live';
import { toPlain } from './plain';
import { Time } from './time';

/** Since when the source cannot be read (ISO 8601), and why; `undefined` while it can. */
const lost = signal<{ readonly since: string; readonly why: string } | undefined>(undefined);

onLive((entry) => {
  if (entry.kind === 'lost') lost.value = entry;
  // After `reset`, a source that is still lost is told again.
  if (entry.kind === 'recovered' || entry.kind === 'reset') lost.value = undefined;
});

/** Tells the reader that what the page shows is old, because the source cannot be read. */
export function SourceState({ name }: { readonly name: string }) {
  if (lost.value === undefined) return null;
  const { since, why } = lost.value;
  return (
    <p class="banner" role="alert">
      <bdi>{toPlain(name)}</bdi> cannot be read since <Time at={since} />: <bdi>{toPlain(why)}</bdi> The page
      shows what was read before, and asks again.
    </p>
  );
}
