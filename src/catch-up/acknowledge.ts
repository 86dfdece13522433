/** A person accepts a gap without proof. */
import type { Awaitable } from '../core/awaitable.js';
import { ConfigError, orUnavailable } from '../core/errors.js';
import { inboxWith, readOptions, required, rule } from '../core/options.js';
import { type Inbox, POLL_NOTE } from '../core/ports.js';
import { RUNTIME, type RuntimeOptions, toRuntime } from '../core/runtime.js';
import { type Gap, toGap } from './gap-text.js';
import { readPollState, writePollState } from './state.js';

/** Who accepts a gap, and why. The inbox keeps both and shows them unchanged. */
export interface Acknowledgement {
  /** The person or job, at most 200 characters. */
  readonly by: string;
  /** Why nothing is missing, or why that is accepted, at most 1,000 characters. */
  readonly reason: string;
}

const textOf = (length: number) =>
  rule(
    `a string of 1 to ${length} characters`,
    (value) => typeof value === 'string' && value.trim() !== '' && value.length <= length,
  );

/** The open and acknowledged gaps of the poller's state, in the order in which they were opened. */
export async function listGaps(inbox: Pick<Inbox, 'readNote'>): Promise<readonly Gap[]> {
  readOptions('listGaps', { inbox }, { inbox: inboxWith('readNote') });
  const { gaps } = await orUnavailable('ERR_INBOX_FAILED', () => readPollState(inbox));
  return gaps.map((gap) => toGap(gap));
}

/** How long other processes cannot poll if this process dies while acknowledging a gap, in ms. */
const ACKNOWLEDGE_LEASE_MS = 10_000;

/**
 * Accepts a gap without proof, for example after comparing the books. The gap stays in the inbox as a record of who
 * accepted it, why and when, and no poll reports it again. A part that a poll has added since the report stays open.
 *
 * @param gap - a gap of a report or of {@link listGaps}; `from`, `until`, `openedAt` and the id of `event` identify it.
 * @returns the acknowledged gap; `null` if nothing changed because another process is polling.
 * @throws {StablehooksError} `ERR_INBOX_FAILED`.
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when the gap is not open, or `by` or `reason` is missing.
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
      'acknowledgeGap: no open gap matches: it is closed, or was acknowledged already. listGaps shows the gaps.',
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
  // If this fails, the lease expires by itself.
  await lease(0).catch(() => undefined);
  return isSaved ? toGap(record) : null;
}
