/** Moving the watermark by hand: a person vouches for what no list can prove. */
import { ConfigError } from '../core/errors.js';
import type { PollerRules } from './options.js';
import { acquirePollLease } from './poll-lease.js';

/** See `Poller.acknowledgeGap`. Under the lease to poll, so that no poll under way writes the old watermark back. */
export async function moveWatermark(
  { receiver, leaseMs, lagMs, now }: PollerRules,
  { holder, until }: { readonly holder: string; readonly until: Date },
): Promise<string | null> {
  if (!(until instanceof Date) || Number.isNaN(until.getTime())) {
    throw new ConfigError(
      'acknowledgeGap takes a Date that is valid: up to when everything is accounted for.',
    );
  }
  const lease = await acquirePollLease(receiver.inbox, { holder, leaseMs });
  if (lease === null) return null;
  const { watermark: before, largest } = lease.state;
  const wanted = Math.min(until.getTime(), now() - lagMs);
  const watermark = Math.max(before ?? wanted, wanted);
  const saved = await lease.release({ watermark, largest }).finally(lease.drop);
  return saved ? new Date(watermark).toISOString() : null;
}
