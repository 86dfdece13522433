import { useMemo, useState } from 'preact/hooks';
import type { ServiceReport } from '../../../src/inspector/api.js';
import { DURATION_HINT, formatDuration, parseDuration } from '../duration';
import { attempt, tellReader } from '../notice';
import { act, can } from '../server';
import { now as clockOfPage, Time } from '../time';
import type { Reloads } from './sandbox-forms';

const STEPS_MS = [1_000, 60_000, 3_600_000, 86_400_000] as const;

export function Clock({ clock, reload }: Pick<ServiceReport, 'clock'> & Reloads) {
  const isManual = clock.mode === 'manual';
  const now = useTime(clock);
  const [typed, setTyped] = useState('');
  const [isAdvancing, setAdvancing] = useState(false);
  const typedMs = parseDuration(typed);
  const isWrong = typed !== '' && !(typedMs !== undefined && typedMs >= 0);

  async function advance(ms: number): Promise<void> {
    setAdvancing(true);
    await attempt(
      () => act('advance-clock', { ms }),
      (after) => `Advanced by ${formatDuration(ms)}. It is now ${after.now}.`,
    );
    setAdvancing(false);
    reload();
  }

  return (
    <section class={isManual ? 'clock clock-manual' : 'clock'} aria-labelledby="clock-title">
      <h3 id="clock-title">
        Clock <span class="badge">{isManual ? 'manual' : 'real'}</span>
      </h3>
      <p class="now">
        <Time at={now} full />
      </p>
      <p class="faint">
        {isManual ? 'Time stands still until you advance it.' : 'Time passes on its own.'} Attempts, movements
        and expiries that become due happen in order.
      </p>
      {can('advance-clock') && (
        <form
          class="buttons"
          onSubmit={(event) => {
            event.preventDefault();
            if (typed === '' || isWrong || typedMs === undefined) tellReader(DURATION_HINT, true);
            else void advance(typedMs);
          }}
        >
          {STEPS_MS.map((ms) => (
            <button key={ms} type="button" disabled={isAdvancing} onClick={() => void advance(ms)}>
              +{formatDuration(ms)}
            </button>
          ))}
          <span class="advance">
            <input
              class="duration"
              aria-label="Advance by"
              placeholder="90s"
              value={typed}
              aria-invalid={isWrong}
              onInput={({ currentTarget: { value } }) => setTyped(value)}
            />
            <button type="submit" disabled={isAdvancing}>
              {isAdvancing ? 'Advancing …' : 'Advance'}
            </button>
          </span>
        </form>
      )}
    </section>
  );
}

function useTime({ mode, now }: ServiceReport['clock']): string {
  const answeredAt = useMemo(() => Date.now(), [now]);
  if (mode === 'manual') return now;
  return new Date(Date.parse(now) + Math.max(0, clockOfPage.value - answeredAt)).toISOString();
}
