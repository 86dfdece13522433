import { createReceiver, type Inbox, type InboxOperations, RetryLater, toWebhookResponse } from 'stablehooks';
import { expect, test } from 'vitest';
import { anEvent, secret } from './delivery.js';
import { durable, HOUR_MS, setUp } from './set-up.js';

const later = () => {
  throw new RetryLater({ afterMs: HOUR_MS, reason: 'the order is not committed' });
};

/** The states and attempts that matter, and the results of the history. */
async function stateOf(inbox: InboxOperations, id: string) {
  const record = await inbox.find(id);
  return [record?.state, record?.attempts, record?.history.map(({ result }) => result).join()];
}

test('a durable inbox answers 202, runs the event when it is due, and counts no attempt', async () => {
  const clock = { now: Date.UTC(2026, 0, 1) };
  const event = anEvent();
  const attempts: number[] = [];
  const { receiver, inbox, deliver, lines } = setUp(
    (_, { attempt }) => {
      attempts.push(attempt);
      if (attempts.length < 3) later();
    },
    { inbox: durable(clock), maxAttempts: 1 },
  );
  receiver.start({ signal: AbortSignal.abort() });
  await receiver.redrive();
  const outcome = await deliver(event);
  expect(outcome).toMatchObject({ kind: 'queued', attempt: 1, error: undefined });
  expect(toWebhookResponse(outcome).status).toBe(202);
  expect(await stateOf(inbox, event.id)).toEqual(['received', 0, 'later']);
  expect((await inbox.find(event.id))?.lastError).toBe('ERR_HANDLER_LATER: the order is not committed');
  expect((await receiver.redrive()).queued).toBe(0);
  clock.now += HOUR_MS;
  expect((await receiver.redrive()).queued).toBe(1);
  clock.now += HOUR_MS;
  expect((await receiver.redrive()).handled).toBe(1);
  expect(attempts).toEqual([1, 1, 1]);
  expect(await stateOf(inbox, event.id)).toEqual(['done', 1, 'later,later,done']);
  expect(lines).toEqual([]);
});

test('without a durable inbox the delivery is answered 503 with Retry-After, and the next one runs the handler', async () => {
  const event = anEvent();
  let isReady = false;
  const { inbox, deliver } = setUp(() => void (isReady || later()));
  const outcome = await deliver(event);
  expect(outcome).toMatchObject({ kind: 'busy', attempt: 1, error: { code: 'ERR_HANDLER_LATER' } });
  const { status, headers } = toWebhookResponse(outcome);
  expect([status, headers['retry-after']]).toEqual([503, '3600']);
  expect(await stateOf(inbox, event.id)).toEqual(['received', 0, 'later']);
  isReady = true;
  expect(await deliver(event)).toMatchObject({ kind: 'handled', attempt: 1 });
});

test('an event that asks for later longer than maxLaterMs after its first receipt is dead with the reason', async () => {
  const clock = { now: Date.UTC(2026, 0, 1) };
  const event = anEvent();
  const { receiver, inbox, deliver, lines } = setUp(later, {
    inbox: durable(clock),
    maxLaterMs: 90 * 60_000,
  });
  await receiver.redrive();
  await deliver(event);
  clock.now += HOUR_MS;
  await receiver.redrive();
  expect(await stateOf(inbox, event.id)).toEqual(['received', 0, 'later,later']);
  clock.now += HOUR_MS;
  expect((await receiver.redrive()).dead).toBe(1);
  expect(await stateOf(inbox, event.id)).toEqual(['dead', 1, 'later,later,dead']);
  expect((await inbox.find(event.id))?.lastError).toBe('ERR_HANDLER_LATER: the order is not committed');
  expect(lines.join()).toContain(`dead transfer.settled ${event.id} (redrive) ERR_HANDLER_LATER`);
});

test('later than maxLaterMs is not possible: the event is due then', async () => {
  const clock = { now: Date.UTC(2026, 0, 1) };
  const event = anEvent();
  const { receiver, inbox, deliver } = setUp(later, { inbox: durable(clock), maxLaterMs: 60_000 });
  await receiver.redrive();
  await deliver(event);
  expect((await inbox.find(event.id))?.dueAt).toBe(clock.now + 60_000);
});

test('an event that asked for later does not keep its ordering key', async () => {
  const [first, second] = [anEvent(), anEvent()];
  const { deliver } = setUp((event) => void (event.id === first.id && later()), {
    inbox: durable(),
    orderingKey: () => 'one',
  });
  expect([(await deliver(first)).kind, (await deliver(second)).kind]).toEqual(['queued', 'handled']);
});

test('a delivery of an event that asked for later runs it early', async () => {
  const event = anEvent();
  let isReady = false;
  const { deliver } = setUp(() => void (isReady || later()), { inbox: durable() });
  await deliver(event);
  isReady = true;
  expect((await deliver(event)).kind).toBe('handled');
});

test('the error of the other module format of this package asks for later as well', async () => {
  const other = Object.assign(new Error('not yet'), { code: 'ERR_HANDLER_LATER', retryAfterMs: HOUR_MS });
  const { deliver } = setUp(() => Promise.reject(other), { inbox: durable() });
  expect((await deliver()).kind).toBe('queued');
});

test('a job whose handler asks for later ends well: redrive adds it again when it is due', async () => {
  const clock = { now: Date.UTC(2026, 0, 1) };
  const inbox: Inbox & InboxOperations = durable(clock);
  const event = anEvent();
  const jobs: string[] = [];
  const queue = { enqueue: async ({ id }: { readonly id: string }) => void jobs.push(id) };
  const front = createReceiver({ secret, inbox, queue, handlers: {} });
  const worker = createReceiver({ secret, inbox, handlers: { 'transfer.settled': later }, logger: console });
  await front.redrive();
  await worker.redrive();
  await front.accept(event, 'push');
  expect((await worker.handle(event, 'queue')).kind).toBe('queued');
  await front.redrive();
  expect(jobs).toEqual([event.id]);
  clock.now += HOUR_MS;
  await front.redrive();
  expect(jobs).toEqual([event.id, event.id]);
});

test('afterMs must be a number of at least 1', () => {
  for (const afterMs of [0, -1, Number.NaN]) {
    expect(() => new RetryLater({ afterMs, reason: 'soon' })).toThrow('must be a number >= 1');
  }
});
