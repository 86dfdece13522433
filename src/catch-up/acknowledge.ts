import type { Awaitable } from '../core/awaitable.js';
import { ConfigError, orUnavailable } from '../core/errors.js';
import { inboxWith, readOptions, required, rule } from '../core/options.js';
import { type Inbox, POLL_NOTE } from '../core/ports.js';
import { RUNTIME, type RuntimeOptions, toRuntime } from '../core/runtime.js';
import { type Gap, toGap } from './gap-text.js';
import { readPollState, writePollState } from './state.js';

/** Who accepted a gap without proof, and why. The inbox stores both texts unchanged. */
export interface Acknowledgement {
  /** The name of the person or job that accepts the gap, up to 200 characters long. */
  readonly by: string;
  /** Why no event is missing, or why missing events don't matter, in up to 1,000 characters. */
  readonly reason: string;
}

const textOf = (length: number) =>
  rule(
    `a string of 1 to ${length} characters`,
    (value) => typeof value === 'string' && value.trim() !== '' && value.length <= length,
  );

/** Returns all gaps that are open, unconfirmed or acknowledged, in the order in which they opened. */
export async function listGaps(inbox: Pick<Inbox, 'readNote'>): Promise<readonly Gap[]> {
  readOptions('listGaps', { inbox }, { inbox: inboxWith('readNote') });
  const { gaps } = await orUnavailable('ERR_INBOX_FAILED', () => readPollState(inbox));
  return gaps.map((gap) => toGap(gap));
}

/** If this process dies while it acknowledges a gap, other processes cannot poll for this long, in ms. */
const ACKNOWLEDGE_LEASE_MS = 10_000;

/**
 * Accepts a gap without proof, for example after you have run `reconcile` for its time span. The inbox records who
 * accepted the gap, when and why, and the reports of later polls no longer list the gap. If a poll has extended the gap
 * since you read it, the new part stays open.
 *
 * @param gap - a gap from a report or from {@link listGaps}. `from`, `openedAt` and the id of `event` identify the gap.
 * The gap is accepted up to `until`.
 * @returns the acknowledged gap, or `null` if nothing changed because another process is polling.
 * @throws {StablehooksError} `ERR_INBOX_FAILED` when the inbox fails.
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when the gap isn't open, or when `by` or `reason` is missing or invalid.
 */
export async function acknowledgeGap(
  inbox: Pick<Inbox, 'readNote' | 'writeNote' | 'leaseNote'>,
  gap: Pick<Gap, 'from' | 'until' | 'openedAt' | 'event'>,
  acknowledgement: Acknowledgement,
  options: { readonly runtime?: RuntimeOptions | undefined } = {},
): Promise<Gap | null> {
  readOptions('acknowledgeGap', { inbox }, { inbox: inboxWith('readNote', 'writeNote', 'leaseNote') });
  const { by, reason } = readOptions('acknowledgeGap', acknowledgement, {
    by: required(textOf(200)),
    reason: required(textOf(1_000)),
  });
  const given = readOptions('acknowledgeGap', options, { runtime: RUNTIME });
  const { now, uuid } = toRuntime(given.runtime);
  const holder = uuid();
  const ask = async <Answer>(call: () => Awaitable<Answer>) => orUnavailable('ERR_INBOX_FAILED', call);
  const lease = (leaseMs: number) => ask(() => inbox.leaseNote(POLL_NOTE, { holder, leaseMs }));
  if (!(await lease(ACKNOWLEDGE_LEASE_MS))) return null;
  const state = await ask(() => readPollState(inbox));
  const found = state.gaps.find((stored) => {
    const { from, openedAt, event } = toGap(stored);
    const isSame = from === gap.from && openedAt === gap.openedAt && event?.id === gap.event?.id;
    return stored.acknowledged === null && isSame;
  });
  const end = Date.parse(gap.until);
  if (found === undefined || !(end > found.from)) {
    await lease(0);
    throw new ConfigError(
      'acknowledgeGap: no open gap matches the gap that you passed. That gap may already be closed or acknowledged. Call listGaps(inbox) to see the gaps.',
    );
  }
  const ends = Object.entries(found.until);
  const accepted = Object.fromEntries(ends.map(([type, until]) => [type, Math.min(until, end)]));
  const record = { ...found, until: accepted, acknowledged: { by, reason, at: now() } };
  const later = ends.filter(([, until]) => until > end);
  const rest = { ...found, from: end, until: Object.fromEntries(later) };
  const parts = later.length === 0 ? [record] : [record, rest];
  const gaps = state.gaps.flatMap((stored) => (stored === found ? parts : [stored]));
  const isSaved = await ask(() => writePollState(inbox, { ...state, gaps }, { holder }));
  // If the release fails, the lease expires by itself.
  await lease(0).catch(() => undefined);
  return isSaved ? toGap(record) : null;
}
