/** The nightly job of docs/reconcile.md: what one night leaves out, another one compares. */
import { createReceiver, memoryInbox, type UnknownEvent } from 'stablehooks';
import { createPoller, type ListedEvents } from 'stablehooks/catch-up';
import { reconcile, sameAmount } from 'stablehooks/reconcile';
import { expect, test } from 'vitest';

const DAY_MS = 86_400_000;
const START = Date.parse('2026-03-01T02:00:00Z');
const NIGHTS = 30;
const quiet = { warn: () => undefined, error: () => undefined };

/** A service with an event each half hour, of which some are listed hours after they were created. */
function setUp() {
  const clock = { now: START };
  const runtime = { now: () => clock.now };
  const ledger = new Map<string, string>();
  const inbox = memoryInbox({ runtime });
  const events = Array.from({ length: NIGHTS * 48 }, (_, index) => {
    const at = START + (index * DAY_MS) / 48 + 1_000;
    const event: UnknownEvent = {
      id: `e${index}`,
      type: 'transfer.settled',
      created_at: new Date(at).toISOString(),
      payload: { amount: '10.00' },
    };
    return { event, listedAt: at + (index % 7 === 0 ? 5 * 3_600_000 : 0) };
  });
  const client = {
    events: {
      async listWithProblems({ limit }: { readonly limit: number }): Promise<ListedEvents> {
        const listed = events.filter(({ listedAt }) => listedAt <= clock.now).map(({ event }) => event);
        const shown = listed.toReversed().slice(0, limit);
        return { events: shown, problems: [], size: shown.length, servedAt: clock.now };
      },
    },
  };
  const handlers = { 'transfer.settled': ({ id }: UnknownEvent) => void ledger.set(id, '10.00') };
  const receiver = createReceiver({ secret: 'secret', inbox, handlers, logger: quiet });

  /** As in the docs. */
  async function readSince(): Promise<Date> {
    const agreedUntil = await inbox.readNote('reconcile');
    return new Date((agreedUntil === null ? clock.now : Date.parse(agreedUntil)) - DAY_MS);
  }
  async function job() {
    const start = new Date(START);
    await createPoller({ client, receiver, since: start, runtime, logger: quiet }).pollOnce();
    const since = await readSince();
    const entries = [...ledger].map(([id, amount]) => ({ id, amount }));
    const result = await reconcile({
      client,
      inbox,
      ledger: entries,
      ledgerTypes: ['transfer.settled'],
      since,
      runtime,
      compare: ({ amount }, { payload }) => (sameAmount(amount, payload['amount']) ? undefined : 'amounts'),
    });
    if (result.agree) await inbox.writeNote('reconcile', result.until);
    return result;
  }
  return { clock, events, inbox, ledger, job };
}

test('over 30 nights every event is compared, also one that is listed late, just before a run, or on a night without a run', async () => {
  const { clock, events, ledger, job } = setUp();
  const compared = new Set<string>();
  for (let night = 1; night <= NIGHTS; night++) {
    clock.now = START + night * DAY_MS;
    if (night === 11 || night === 12) continue;
    const { since, until, findings } = await job();
    expect(Object.values(findings).filter(({ count }) => count > 0)).toEqual([]);
    for (const { event } of events) {
      if (ledger.has(event.id) && event.created_at >= since && event.created_at < until)
        compared.add(event.id);
    }
  }
  const settled = clock.now - DAY_MS;
  const missed = events.filter(
    ({ event }) => Date.parse(event.created_at) < settled && !compared.has(event.id),
  );
  expect(missed.map(({ event }) => event.id)).toEqual([]);
});

test.each([
  ['three minutes before a run', 47],
  ['listed five hours late', 49],
])(
  'a wrong amount that is planted after the night of an event %s is found on the next one',
  async (_, index) => {
    const { clock, events, ledger, job } = setUp();
    const id = `e${index}`;
    const event = events[index]?.event;
    // The last event of the day is a moment before the run.
    if (index === 47 && event !== undefined) {
      const created_at = new Date(START + DAY_MS - 180_000).toISOString();
      events[index] = { event: { ...event, created_at }, listedAt: START + DAY_MS - 180_000 };
    }
    const found = [];
    for (let night = 1; night <= 3; night++) {
      clock.now = START + night * DAY_MS;
      found.push((await job()).findings.mismatched.ids);
      if (ledger.has(id)) ledger.set(id, '1.00');
    }
    expect(found.flat()).toContain(id);
  },
);
