/** How a poller is wired: a non-durable inbox, a receiver given as a function, and the lines that it logs. */
import { createReceiver, memoryInbox, type Receiver } from 'stablehooks';
import { createPoller, type Gap, type PollerClient } from 'stablehooks/catch-up';
import { expect, test } from 'vitest';

const emptyList: PollerClient = {
  events: { listWithProblems: async () => ({ events: [], problems: [], size: 0 }) },
};
const brokenList: PollerClient = {
  events: {
    listWithProblems: async () => {
      throw new Error('503');
    },
  },
};

function createLogger() {
  const lines: string[] = [];
  const log = (line: string) => void lines.push(line);
  return { lines, logger: { warn: log, error: log } };
}

const durableInbox = () => ({ ...memoryInbox(), durable: true });

function receiverOf(inbox = durableInbox()) {
  return createReceiver({ secret: 'secret', handlers: {}, inbox });
}

test('pollers whose inbox is not durable say so once, with the fix, however many poll and however often', async () => {
  const { lines, logger } = createLogger();
  const receiver = receiverOf(memoryInbox());
  for (const _ of [1, 2]) {
    const poller = createPoller({ client: emptyList, receiver, logger });
    await poller.pollOnce();
    await poller.pollOnce();
  }
  expect(lines).toEqual([expect.stringMatching(/not durable.*a poller uses it.*sqliteInbox/)]);
});

test('a poller whose inbox is durable says nothing', async () => {
  const { lines, logger } = createLogger();
  await createPoller({ client: emptyList, receiver: receiverOf(), logger }).pollOnce();
  expect(lines).toEqual([]);
});

test('a copy of a receiver is refused when the poller is created', () => {
  const receiver = { ...receiverOf() };
  expect(() => createPoller({ client: emptyList, receiver })).toThrow(
    expect.objectContaining({ code: 'ERR_CONFIG_INVALID' }),
  );
});

test('a receiver that is given as a function is made once, at the first poll', async () => {
  let made = 0;
  const receiver = () => {
    made += 1;
    return receiverOf();
  };
  const poller = createPoller({ client: emptyList, receiver });
  expect(made).toBe(0);
  expect(await poller.pollOnce()).toMatchObject({ proven: true });
  expect(await poller.pollOnce()).toMatchObject({ proven: true });
  expect(poller.inbox.durable).toBe(true);
  expect(made).toBe(1);
});

test.each<[string, () => Receiver, RegExp]>([
  [
    'throws',
    () => {
      throw new Error('token=hunter2 is missing');
    },
    /createPoller: the function that creates the receiver failed/,
  ],
  [
    'returns something else',
    () => ({}) as Receiver,
    /createPoller: `receiver` must be a receiver created by createReceiver/,
  ],
  [
    'makes a receiver with wrong options',
    () => createReceiver({ secret: '', handlers: {} }),
    /`secret` is empty/,
  ],
])(
  'a function that %s is reported by a poll and logged once, and is called again at the next poll',
  async (_, wrong, message) => {
    const { lines, logger } = createLogger();
    let make = wrong;
    const poller = createPoller({ client: emptyList, receiver: () => make(), logger });
    const report = await poller.pollOnce();
    expect(report).toMatchObject({ proven: false, requests: 0 });
    expect(report.problems).toEqual([
      { code: 'ERR_CONFIG_INVALID', message: expect.stringMatching(message) },
    ]);
    await poller.pollOnce();
    expect(lines).toEqual([expect.stringMatching(message)]);
    expect(JSON.stringify([report, lines])).not.toContain('hunter2');
    make = receiverOf;
    expect(await poller.pollOnce()).toMatchObject({ proven: true, problems: [] });
  },
);

test('a gap is logged once with the fix, even if onGap takes it, and so is an observer that throws', async () => {
  const { lines, logger } = createLogger();
  const gaps: Gap[] = [];
  const value = { type: 'transfer.settled', created_at: '2026-03-02T12:58:00Z', payload: {} };
  let shown: 'nothing' | 'a malformed event' | 'the event' = 'nothing';
  let now = Date.parse('2026-03-02T12:00:00Z');
  const client: PollerClient = {
    events: {
      listWithProblems: async () => ({
        events: shown === 'the event' ? [{ ...value, id: 'e' }] : [],
        problems: shown === 'a malformed event' ? [{ index: 0, fields: ['id'], value }] : [],
        size: shown === 'nothing' ? 0 : 1,
      }),
    },
  };
  const poller = createPoller({
    client,
    receiver: receiverOf(),
    since: new Date(0),
    runtime: { now: () => now },
    logger,
    onGap: (gap) => void gaps.push(gap),
    onReport: () => {
      throw new Error('the dashboard is down');
    },
  });
  for (shown of ['nothing', 'a malformed event', 'a malformed event', 'the event'] as const) {
    now += 3_600_000;
    await poller.pollOnce();
  }
  const from = '2026-03-02T12:55:00.000Z';
  expect(gaps).toMatchObject([
    { state: 'open', from, until: '2026-03-02T12:58:00.000Z' },
    { state: 'closed', from, until: '2026-03-02T12:58:00.000Z' },
  ]);
  expect(lines.filter((line) => !line.includes('onReport threw an error'))).toEqual([
    expect.stringMatching(/2026-03-02T12:55.* may be missing\. .* Report (it|this) to the service\.$/),
    expect.stringMatching(/2026-03-02T12:55.* are all in the inbox now/),
  ]);
});

test('a list that does not answer is logged once, and so is its return', async () => {
  const { lines, logger } = createLogger();
  let down = true;
  const client: PollerClient = {
    events: {
      listWithProblems: (query) =>
        down ? brokenList.events.listWithProblems(query) : emptyList.events.listWithProblems(query),
    },
  };
  const poller = createPoller({ client, receiver: receiverOf(), since: new Date(0), logger });
  const first = await poller.pollOnce();
  expect(first).toMatchObject({ proven: false, watermark: null, gaps: [] });
  expect(first.diagnosis).toMatch(/^The service's event list could not be read/);
  await poller.pollOnce();
  down = false;
  await poller.pollOnce();
  expect(lines).toEqual([
    expect.stringMatching(/^stablehooks: the poll failed\. ERR_API_RESPONSE: /),
    'stablehooks: polls succeed again.',
  ]);
});

test('createPoller refuses a logger that has no methods for warnings and errors', () => {
  const logger = { info: () => undefined } as unknown as Console;
  expect(() => createPoller({ client: emptyList, receiver: receiverOf(), logger })).toThrow(
    '`logger` must be',
  );
});
