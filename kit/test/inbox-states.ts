import type { ClaimOptions, FailOptions, Inbox, UnknownEvent } from 'stablehooks';

interface Failure extends Partial<FailOptions>, Partial<ClaimOptions> {}

/** Claims an event. */
async function claim(inbox: Pick<Inbox, 'claim'>, event: UnknownEvent, options: Partial<ClaimOptions>) {
  const claimed = await inbox.claim(event, { leaseMs: 60_000, origin: 'push', ...options });
  if (claimed.state !== 'claimed') throw new Error(`The event is ${claimed.state}.`);
  return claimed.lease;
}

/** Fails an attempt of an event, which is dead then, or due again after `retryAfterMs`. */
export async function fail(
  inbox: Pick<Inbox, 'claim' | 'fail'>,
  event: UnknownEvent,
  { error = 'closed', retryAfterMs = null, ...options }: Failure = {},
): Promise<void> {
  await inbox.fail(await claim(inbox, event, options), { error, retryAfterMs });
}

export async function complete(
  inbox: Pick<Inbox, 'claim' | 'complete'>,
  event: UnknownEvent,
  options: Partial<ClaimOptions> = {},
): Promise<void> {
  await inbox.complete(await claim(inbox, event, options));
}
