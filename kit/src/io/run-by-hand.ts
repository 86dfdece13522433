import type { Inbox, InboxRecord, UnknownEvent } from 'stablehooks';

/** An event whose stored text can be read. */
export type Runnable = InboxRecord & { readonly event: UnknownEvent };

/** In ms. Long enough to record a result in the next step. */
const LEASE_MS = 5_000;

/** `early` lets the claim succeed before the retry time. */
export function toClaimOptions({ key }: Runnable) {
  return { leaseMs: LEASE_MS, origin: 'redrive', early: true, key: key ?? undefined } as const;
}

/** A failed event keeps its retry time, and a dead event becomes dead again. */
export function toFailOptions({ state, lastError, dueAt }: InboxRecord, error: string) {
  return {
    retryAfterMs: state === 'dead' ? null : Math.max(0, (dueAt ?? 0) - Date.now()),
    error: afterCause(lastError, `${RUN}${error}`),
  };
}

/** Without this, the app would retry the dead event later. */
export async function returnToDead(
  inbox: Pick<Inbox, 'claim' | 'fail'>,
  record: Runnable,
  error: string,
): Promise<void> {
  const claim = await inbox.claim(record.event, toClaimOptions(record));
  if (claim.state === 'claimed') await inbox.fail(claim.lease, toFailOptions(record, error));
}

const RUN = 'inbox run: ';

/** The maximum length of the first error, which leaves room for the error of the new run. */
const MAX_CAUSE = 700;

/** Keeps the first error before the error of this run. */
function afterCause(lastError: string | null, error: string): string {
  const [cause = ''] = lastError?.split(`; ${RUN}`) ?? [];
  return cause === '' || cause.startsWith(RUN) ? error : `${cause.slice(0, MAX_CAUSE)}; ${error}`;
}
