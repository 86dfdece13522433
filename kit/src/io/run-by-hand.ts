/** Records that an event failed when a person ran it from the command line or from the page. */
import type { Inbox, InboxRecord, UnknownEvent } from 'stablehooks';

/** An event whose stored text can be read. */
export type Runnable = InboxRecord & { readonly event: UnknownEvent };

/** Long enough to record a result in the next step. */
const LEASE_MS = 5_000;

/** The options of the claim that records the result of a run. Such a claim succeeds even before the retry time. */
export function toClaimOptions({ key }: Runnable) {
  return { leaseMs: LEASE_MS, origin: 'redrive', early: true, key: key ?? undefined } as const;
}

/**
 * A failed event keeps its retry time, and a dead event becomes dead again. The error of both still begins with the
 * first cause.
 */
export function toFailOptions({ state, lastError, dueAt }: InboxRecord, error: string) {
  return {
    retryAfterMs: state === 'dead' ? null : Math.max(0, (dueAt ?? 0) - Date.now()),
    error: afterCause(lastError, `${RUN}${error}`),
  };
}

/**
 * Makes an event dead again after a failed run, with the first cause in its record. Otherwise, the app would retry it
 * later.
 */
export async function returnToDead(
  inbox: Pick<Inbox, 'claim' | 'fail'>,
  record: Runnable,
  error: string,
): Promise<void> {
  const claim = await inbox.claim(record.event, toClaimOptions(record));
  if (claim.state === 'claimed') await inbox.fail(claim.lease, toFailOptions(record, error));
}

const RUN = 'inbox run: ';

/** How many characters of the first error are kept, so that the error of the new run also fits in the inbox. */
const MAX_CAUSE = 700;

/** Returns the error with which the event failed before, followed by the error of this run. */
function afterCause(lastError: string | null, error: string): string {
  const [cause = ''] = lastError?.split(`; ${RUN}`) ?? [];
  return cause === '' || cause.startsWith(RUN) ? error : `${cause.slice(0, MAX_CAUSE)}; ${error}`;
}
