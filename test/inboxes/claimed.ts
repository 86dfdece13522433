import type { Inbox, UnknownEvent } from 'stablehooks';
import { exampleEvent } from 'stablehooks/testing';

/** A logger that writes nothing. */
export const silent = { warn: () => undefined, error: () => undefined };

/** An event with an id of its own. */
export const someEvent = (changes?: Partial<UnknownEvent>): UnknownEvent => ({
  ...exampleEvent('transfer.settled'),
  ...changes,
});

/** Claims an event, by default for a minute. */
export async function claimed(
  inbox: Pick<Inbox, 'claim'>,
  event: UnknownEvent = someEvent(),
  options: Partial<Parameters<Inbox['claim']>[1]> = {},
) {
  const claim = await inbox.claim(event, { leaseMs: 60_000, origin: 'push', ...options });
  if (claim.state !== 'claimed') throw new Error(`The claim of ${event.id} was answered ${claim.state}.`);
  return claim.lease;
}
