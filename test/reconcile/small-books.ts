/** Three books that are written by hand. */

import { type Inbox, memoryInbox, type UnknownEvent } from 'stablehooks';
import { type PollState, writePollState } from 'stablehooks/catch-up';
import type { Client } from 'stablehooks/client';
import { type ReconcileOptions, reconcile } from 'stablehooks/reconcile';

export const NOW = Date.parse('2026-03-01T12:00:00Z');
export const SINCE = new Date('2026-03-01T00:00:00Z');
export const LEASE = { leaseMs: 1_000, origin: 'push' } as const;

export const makeEvent = (id: string, fields: Partial<UnknownEvent> = {}): UnknownEvent => ({
  id,
  type: 'transfer.settled',
  created_at: '2026-03-01T06:00:00Z',
  payload: {},
  ...fields,
});

type Problems = Awaited<ReturnType<Client['events']['listWithProblems']>>['problems'];

/** A client whose list has these events and one malformed element per problem, and returns as many as `limitOf` allows. */
export const listOf = (
  events: readonly UnknownEvent[],
  { problems = [] as Problems, limitOf = (limit: number) => limit } = {},
) => ({
  events: {
    async listWithProblems({ type, limit }: { readonly type?: string | undefined; readonly limit: number }) {
      const matching = events.filter((event) => type === undefined || event.type === type);
      const shown = matching.slice(0, limitOf(limit));
      return { events: shown, problems, size: shown.length + problems.length, servedAt: NOW };
    },
  },
});

type ListOptions = Parameters<ReturnType<typeof makeInbox>['list']>[0];

/** The inbox, in which something happens before each page is read. */
export const withList = (
  inbox: ReturnType<typeof makeInbox>,
  before: (options: ListOptions) => unknown,
): ReturnType<typeof makeInbox> => ({
  ...inbox,
  async list(options) {
    await before(options);
    return inbox.list(options);
  },
});

export const makeInbox = (at = NOW) => memoryInbox({ runtime: { now: () => at } });

export async function finish(inbox: ReturnType<typeof makeInbox>, event: UnknownEvent): Promise<void> {
  const claim = await inbox.claim(event, LEASE);
  if (claim.state === 'claimed') await inbox.complete(claim.lease);
}

/** Finishes the events. Returns an inbox and a ledger that have each of them. */
export async function booksOf(events: readonly UnknownEvent[], inbox = makeInbox()) {
  for (const event of events) await finish(inbox, event);
  return { inbox, ledger: events.map(({ id }) => ({ id })) };
}

/** Events at one time, which show neither an order nor completeness. */
export const FIFTY = Array.from({ length: 50 }, (_, index) => makeEvent(`evt_${index}`));

/** Saves the state of a poller that has proven the whole span, unless the changes say otherwise. */
export async function savePoll(inbox: Inbox, changes: Partial<PollState> = {}) {
  const state = { since: SINCE.getTime(), watermark: NOW - 300_000, gaps: [], limit: 50, oldest: null };
  await writePollState(inbox, { ...state, ...changes });
}

/** Reconciles the events of the list, unless an option says otherwise. */
export function compareBooks(
  events: readonly UnknownEvent[],
  options: Pick<ReconcileOptions, 'inbox' | 'ledger'> & Partial<ReconcileOptions>,
) {
  return reconcile({ client: listOf(events), since: SINCE, runtime: { now: () => NOW }, ...options });
}
