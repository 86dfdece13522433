/** Moving the horizon by hand: a person vouches for what no list can prove. */
import { ConfigError } from '../core/errors.js';
import type { PollerRules } from './options.js';
import { takePollLease } from './poll-lease.js';

/** See `Poller.closeGap`. Under the lease to poll, so that no poll under way writes the old horizon back. */
export async function moveHorizon(
  { receiver, leaseMs, lagMs, now }: PollerRules,
  { holder, until }: { readonly holder: string; readonly until: Date },
): Promise<string | null> {
  if (!(until instanceof Date) || Number.isNaN(until.getTime())) {
    throw new ConfigError('closeGap takes a Date that is valid: up to when everything is accounted for.');
  }
  const lease = await takePollLease(receiver.inbox, { holder, leaseMs });
  if (lease === null) return null;
  const { horizon: before, largest } = lease.state;
  const wanted = Math.min(until.getTime(), now() - lagMs);
  const horizon = Math.max(before ?? wanted, wanted);
  const saved = await lease.release({ horizon, largest }).finally(lease.drop);
  return saved ? new Date(horizon).toISOString() : null;
}
