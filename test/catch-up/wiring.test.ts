/** How a poller is wired: an inbox that forgets, values as functions, where its lines go. */
import { ConfigError, createReceiver, memoryInbox } from 'stablehooks';
import { createPoller, type Gap, type PollerClient, type PollerOptions } from 'stablehooks/catch-up';
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

test('a client and a receiver that are given as functions are made once, at the first poll', async () => {
  const made: string[] = [];
  const { logger } = createLogger();
  const poller = createPoller({
    client: () => {
      made.push('client');
      return emptyList;
    },
    receiver: () => {
      made.push('receiver');
      return receiverOf();
    },
    logger,
  });
  expect(made).toEqual([]);
  expect(await poller.pollOnce()).toMatchObject({ proven: true });
  expect(await poller.pollOnce()).toMatchObject({ proven: true });
  expect(made.sort()).toEqual(['client', 'receiver']);
});

test('a receiver whose inbox is given as a function makes it at the first poll, not when the poller is created', async () => {
  let made = 0;
  const receiver = createReceiver({
    secret: () => 'secret',
    handlers: {},
    inbox: () => {
      made += 1;
      return durableInbox();
    },
  });
  const poller = createPoller({ client: emptyList, receiver });
  expect(made).toBe(0);
  expect(await poller.pollOnce()).toMatchObject({ proven: true });
  expect(made).toBe(1);
});

test.each<[string, Partial<PollerOptions>, RegExp]>([
  [
    'throws',
    {
      client: () => {
        throw new Error('token=hunter2 is missing');
      },
    },
    /createPoller: `client`/,
  ],
  ['gives no client', { client: () => ({}) as PollerClient }, /createPoller: `client` must be a client/],
  [
    'gives a receiver whose inbox cannot be made',
    {
      receiver: () =>
        createReceiver({
          secret: 'secret',
          handlers: {},
          inbox: () => {
            throw new Error('DATABASE_URL is not set');
          },
        }),
    },
    /createReceiver: `inbox`/,
  ],
])('a function that %s is in the report and in one line, by its option', async (_, wrong, message) => {
  const { lines, logger } = createLogger();
  const poller = createPoller({ client: emptyList, receiver: receiverOf(), logger, ...wrong });
  const report = await poller.pollOnce();
  expect(report).toMatchObject({ proven: false, requests: 0 });
  expect(report.problems).toMatchObject([{ code: 'ERR_CONFIG_INVALID' }]);
  expect(report.problems[0]?.message).toMatch(message);
  expect(lines).toHaveLength(1);
  expect(lines[0]).toMatch(message);
  expect(JSON.stringify([report, lines])).not.toContain('hunter2');
});

test('a poll that fails because a function failed succeeds once the function does', async () => {
  const { logger } = createLogger();
  let ready = false;
  const client = () => {
    if (!ready) throw new ConfigError('SERVICE_URL is not set.');
    return emptyList;
  };
  const poller = createPoller({ client, receiver: receiverOf(), logger });
  expect((await poller.pollOnce()).problems).toMatchObject([{ message: 'SERVICE_URL is not set.' }]);
  ready = true;
  expect(await poller.pollOnce()).toMatchObject({ proven: true, problems: [] });
});

test('a gap is logged once with the fix, also when onGap takes it, and so is an observer that throws', async () => {
  const { lines, logger } = createLogger();
  const gaps: Gap[] = [];
  const events = Array.from({ length: 60 }, (_, index) => ({
    id: `e${index}`,
    type: 'transfer.settled',
    created_at: '2026-03-01T12:00:00Z',
    payload: {},
  }));
  let size = 10;
  let now = Date.parse('2026-03-02T12:00:00Z');
  const client: PollerClient = {
    events: { listWithProblems: async () => ({ events: events.slice(0, size), problems: [], size }) },
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
  for (size of [10, 60, 60, 40]) {
    now += 3_600_000;
    await poller.pollOnce();
  }
  const from = '2026-03-02T12:55:00.000Z';
  expect(gaps).toMatchObject([
    { state: 'open', from, until: '2026-03-02T13:55:00.000Z' },
    { state: 'closed', from, until: '2026-03-02T14:55:00.000Z' },
  ]);
  expect(lines.filter((line) => !line.includes('onReport threw an error'))).toEqual([
    expect.stringMatching(
      /^stablehooks: Events created after 2026-03-02T12:55.* can be missing: .* shows no order\. Raise/,
    ),
    expect.stringMatching(/^stablehooks: Events created after 2026-03-02T12:55.* are not missing any more/),
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
  expect(first.diagnosis).toBe(
    'The list was not read, or what it showed was not recorded, so nothing is proven and the watermark stays.',
  );
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

test('pollOnce does not reject an option that it does not know: its report and a line name it, and the list is not read', async () => {
  const { lines, logger } = createLogger();
  const poller = createPoller({ client: emptyList, receiver: receiverOf(), logger });
  const report = await poller.pollOnce({ sginal: AbortSignal.abort() } as object);
  expect(report).toMatchObject({ proven: false, requests: 0, problems: [{ code: 'ERR_CONFIG_INVALID' }] });
  expect(lines).toEqual([expect.stringMatching(/unknown option `sginal`\. The options are signal\./)]);
});

test.each([[null], ['now'], [{ signal: new AbortController() }]])(
  'pollOnce does not reject %j: its report has ERR_CONFIG_INVALID, and the list is not read',
  async (options) => {
    const { logger } = createLogger();
    const poller = createPoller({ client: emptyList, receiver: receiverOf(), logger });
    const report = await poller.pollOnce(options as unknown as object);
    expect(report).toMatchObject({ proven: false, requests: 0, problems: [{ code: 'ERR_CONFIG_INVALID' }] });
  },
);
