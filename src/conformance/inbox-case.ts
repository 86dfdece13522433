/** What a case of the inbox contract is, and what the cases share. */
import { randomUUID } from 'node:crypto';
import type { UnknownEvent } from '../core/events.js';
import type { Inbox, InboxOperations, Lease } from '../core/inbox.js';

/** An inbox of its own for one case, empty, seen through two connections (the same object where there is none). */
export interface InboxUnderTest {
  readonly inbox: Inbox<unknown> & InboxOperations;
  readonly second: Inbox<unknown> & InboxOperations;
}

/** One rule that every inbox keeps; `run` rejects when it is broken. */
export interface InboxCase {
  readonly name: string;
  run(under: InboxUnderTest): Promise<void>;
}

export const HOUR_MS = 3_600_000;

/** A lease that nobody outlives in a test. */
export const LONG = { leaseMs: HOUR_MS, origin: 'push' } as const;

/** A lease that has lapsed as soon as it is given. */
export const LAPSED = { leaseMs: 0, origin: 'push' } as const;

/** Recorded and due at once. */
export const DUE = { dueInMs: 0, origin: 'pull' } as const;

/** Takes whatever is due and hides it for the rest of the test. */
export const TAKE = { limit: 1_000, visibilityTimeoutMs: HOUR_MS, types: [] as readonly string[] } as const;

/** An event with an id of its own. */
export function someEvent(overrides: Partial<UnknownEvent> = {}): UnknownEvent {
  return {
    id: `evt_${randomUUID()}`,
    type: 'transfer.settled',
    created_at: '2026-01-02T03:04:05.678Z',
    payload: { amount: '10.50' },
    ...overrides,
  };
}

/** So many events, each with an id of its own. */
export function someEvents(count: number, overrides: Partial<UnknownEvent> = {}): readonly UnknownEvent[] {
  return Array.from({ length: count }, () => someEvent(overrides));
}

/** Claims the event, which must succeed. */
export async function claimed(
  inbox: Inbox<unknown>,
  { event, leaseMs = HOUR_MS }: { readonly event: UnknownEvent; readonly leaseMs?: number },
): Promise<Lease> {
  const claim = await inbox.claim(event, { leaseMs, origin: 'push' });
  if (claim.state !== 'claimed') throw new Error(`expected to claim ${event.id}, but it is ${claim.state}`);
  return claim.lease;
}

export const ids = (events: readonly UnknownEvent[]) => events.map(({ id }) => id);
