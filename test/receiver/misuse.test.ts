/** What a caller hands over wrongly is told, and changes nothing. */
import { inspect } from 'node:util';
import {
  createReceiver,
  type Inbox,
  memoryInbox,
  type Outcome,
  type Queue,
  toWebhookResponse,
  type UnknownEvent,
} from 'stablehooks';
import { describe, expect, test } from 'vitest';
import { anEvent, delivery, secret } from './delivery.js';

function setUp() {
  const inbox = memoryInbox();
  const handled: string[] = [];
  const outcomes: Outcome[] = [];
  const lines: string[] = [];
  const log = (line: string) => void lines.push(line);
  const receiver = createReceiver({
    secret,
    inbox,
    handlers: { 'transfer.settled': ({ id }) => void handled.push(id) },
    onOutcome: (outcome) => void outcomes.push(outcome),
    logger: { warn: log, error: log },
  });
  return { inbox, receiver, handled, outcomes, lines };
}

/** What no inbox answers, such as what a driver with another mapping of types makes of an answer. */
const NONSENSE = [
  undefined,
  null,
  91,
  'done',
  {},
  [],
  { state: 91 },
  { state: 'stored' },
  new Uint8Array([91]),
];

describe('an inbox that gives an answer that its port does not have', () => {
  /** A receiver over an inbox of which one method resolves to this answer, and how often that was called. */
  function answering(method: keyof Inbox, answer: unknown, options: object = {}) {
    const lines: string[] = [];
    const handled: string[] = [];
    const log = (line: string) => void lines.push(line);
    let calls = 0;
    const wrong = async () => {
      calls += 1;
      return answer;
    };
    const receiver = createReceiver({
      secret,
      inbox: { ...memoryInbox(), durable: true, [method]: wrong },
      handlers: { 'transfer.settled': ({ id }) => void handled.push(id) },
      logger: { warn: log, error: log },
      ...options,
    });
    return { receiver, lines, handled, calls: () => calls };
  }
  const unavailable = { kind: 'unavailable', error: { code: 'ERR_INBOX_FAILED' } };
  const claims = [
    ...NONSENSE,
    { state: 'claimed' },
    { state: 'claimed', lease: { id: 'a', token: 'b', attempt: 1n } },
    { state: 'leased' },
    { state: 'waiting', retryAfterMs: '5' },
  ];

  test.each(claims.map((answer) => ({ answer })))(
    'to a claim ($answer) is unavailable, with a line, and runs nothing',
    async ({ answer }) => {
      for (const acknowledge of ['handled', 'recorded'] as const) {
        const { receiver, lines, handled } = answering('claim', answer, { acknowledge });
        expect(await receiver.receive(await delivery(anEvent()))).toMatchObject(unavailable);
        expect(handled).toEqual([]);
        expect(lines).toEqual([
          expect.stringMatching(/ERR_INBOX_FAILED.*\n.*an answer that its port does not/),
        ]);
      }
    },
  );

  test.each([...NONSENSE, ['stored'], ['new', 'new']].map((answer) => ({ answer })))(
    'to a record ($answer) is unavailable, and enqueues and parks nothing',
    async ({ answer }) => {
      const enqueued: string[] = [];
      const queue: Queue = { enqueue: async ({ id }) => void enqueued.push(id) };
      const { receiver } = answering('record', answer, { queue });
      for (const event of [anEvent(), anEvent({ type: 'mint.completed' })]) {
        expect(await receiver.accept(event, 'push')).toMatchObject(unavailable);
        const recorded = receiver.record([event], { dueInMs: 0, origin: 'pull' });
        await expect(recorded).rejects.toMatchObject(unavailable.error);
      }
      expect(enqueued).toEqual([]);
    },
  );

  test.each(NONSENSE.map((answer) => ({ answer })))(
    'to the end of an attempt ($answer) is unavailable, whether the handler succeeded or not',
    async ({ answer }) => {
      const { receiver } = answering('complete', answer);
      expect(await receiver.handle(anEvent(), 'push')).toMatchObject(unavailable);
      const failing = answering('fail', answer, {
        handlers: { 'transfer.settled': () => Promise.reject(new Error('no')) },
      });
      expect(await failing.receiver.handle(anEvent(), 'push')).toMatchObject(unavailable);
    },
  );

  // An empty list is an answer: nothing is due.
  const isEmpty = (answer: unknown) => Array.isArray(answer) && answer.length === 0;
  const taken = [...NONSENSE.filter((answer) => !isEmpty(answer)), [91], [null], [{ json: '{}' }]];
  test.each(taken.map((answer) => ({ answer })))(
    'to takeDue ($answer) ends redrive, which asks once',
    async ({ answer }) => {
      const { receiver, lines, calls } = answering('takeDue', answer);
      await expect(receiver.redrive()).rejects.toMatchObject(unavailable.error);
      expect(calls()).toBe(1);
      expect(lines).toEqual([]);
    },
  );
});

type RecordOptions = Parameters<ReturnType<typeof createReceiver>['record']>[1];

test.each([
  [{ dueInMS: 0, origin: 'pull' }, /unknown option `dueInMS`\. The options are dueInMs, origin, json\./],
  [{ origin: 'pull' }, /`dueInMs` must be an integer from 0/],
  [{ dueInMs: Number.NaN, origin: 'pull' }, /`dueInMs`/],
  [{ dueInMs: -1, origin: 'pull' }, /`dueInMs`/],
  [{ dueInMs: 0 }, /`origin` must be one of push, pull, queue, redrive/],
  [{ dueInMs: 0, origin: 'poll' }, /`origin`/],
  [{ dueInMs: 0, origin: 'pull', json: [] }, /`json` must be an array with the JSON of each event/],
  [{ dueInMs: 0, origin: 'pull', json: '{' }, /`json` must be an array with the JSON of each event/],
  [null, /the options must be an object\. They are dueInMs, origin, json\./],
  [undefined, /the options must be an object/],
  ['pull', /the options must be an object/],
])('record refuses the options %j, and records nothing', async (options, message) => {
  const { inbox, receiver } = setUp();
  const event = anEvent();
  const recorded = receiver.record([event], options as RecordOptions);
  await expect(recorded).rejects.toThrow(expect.objectContaining({ code: 'ERR_CONFIG_INVALID' }));
  await expect(recorded).rejects.toThrow(message);
  expect(await inbox.find(event.id)).toBeUndefined();
});

/** What is not the JSON of an event, and why. */
const wrongTexts: readonly [string, (event: UnknownEvent) => unknown][] = [
  ['no JSON', () => '[object Object]'],
  ['cut', (event) => JSON.stringify(event).slice(0, -1)],
  ['no object', () => 'null'],
  ['no event', ({ id, type }) => JSON.stringify({ id, type })],
  ['an event with another id', (event) => JSON.stringify({ ...event, id: 'evt_of_another' })],
  ['an event of another type', (event) => JSON.stringify({ ...event, type: 'redeem.failed' })],
  ['no string', (event) => event],
  ['a list of texts', (event) => [JSON.stringify(event)]],
  ['null', () => null],
];

test.each(wrongTexts)(
  'record refuses a page with a text that is %s, names its index, and records nothing',
  async (_, toText) => {
    const { inbox, receiver } = setUp();
    const page = [anEvent(), anEvent()] as const;
    const json = [JSON.stringify(page[0]), toText(page[1])] as readonly string[];
    const recorded = receiver.record(page, { dueInMs: 0, origin: 'pull', json });
    const message =
      /^receiver\.record: `json\[1\]` must be the JSON of the event, with its `id` and `type`\./;
    await expect(recorded).rejects.toMatchObject({
      code: 'ERR_CONFIG_INVALID',
      message: expect.stringMatching(message),
    });
    expect(inspect(await recorded.catch((error: unknown) => error))).not.toContain('planted payload');
    for (const { id } of page) expect(await inbox.find(id)).toBeUndefined();
  },
);

test.each<[string, unknown]>([
  ['an event', anEvent()],
  ['nothing', undefined],
  ['a text', '[]'],
])('record refuses %s in the place of its array of events', async (_, events) => {
  const { receiver } = setUp();
  const recorded = receiver.record(events as UnknownEvent[], { dueInMs: 0, origin: 'pull' });
  await expect(recorded).rejects.toMatchObject({
    code: 'ERR_CONFIG_INVALID',
    message: 'receiver.record: the first argument must be an array of events.',
  });
});

test.each<[unknown, readonly string[]]>([
  [null, []],
  [{ id: 'z' }, ['type', 'created_at', 'payload']],
])(
  'record refuses a page with %j, which is no event, names its index, and records nothing',
  async (value, fields) => {
    const { inbox, receiver } = setUp();
    const event = anEvent();
    const recorded = receiver.record([event, value as UnknownEvent], { dueInMs: 0, origin: 'pull' });
    await expect(recorded).rejects.toMatchObject({
      code: 'ERR_CONFIG_INVALID',
      message: expect.stringMatching(
        /^receiver\.record: `events\[1\]` is not an event; see the cause\. Pass events as the service sends them, with id, type, created_at and payload\.$/,
      ),
      cause: expect.objectContaining({ code: 'ERR_EVENT_MALFORMED', fields }),
    });
    expect(await inbox.find(event.id)).toBeUndefined();
  },
);

test.each<[string, unknown, string]>([
  [
    'an unknown one',
    { onOutcomes: () => undefined },
    'unknown option `onOutcomes`. The options are signal, onOutcome, waitUntil.',
  ],
  ['null', null, 'the options must be an object. They are signal, onOutcome, waitUntil.'],
  ['a controller as the signal', { signal: new AbortController() }, '`signal` must be an AbortSignal.'],
  ['an onOutcome that is no function', { onOutcome: [] }, '`onOutcome` must be a function.'],
  ['a waitUntil that is no function', { waitUntil: [] }, '`waitUntil` must be a function.'],
])('redrive refuses wrong options, and runs nothing: %s', async (_, options, message) => {
  const { receiver, handled } = setUp();
  await receiver.record([anEvent()], { dueInMs: 0, origin: 'pull' });
  const redriven = receiver.redrive(options as object);
  await expect(redriven).rejects.toMatchObject({
    code: 'ERR_CONFIG_INVALID',
    message: `receiver.redrive: ${message}`,
  });
  expect(handled).toEqual([]);
  await receiver.redrive();
  expect(handled).toHaveLength(1);
});

describe.each(['accept', 'handle'] as const)('%s', (method) => {
  test.each<[unknown, readonly string[]]>([
    [null, []],
    [undefined, []],
    ['evt_1', []],
    [{ id: 'evt_1' }, ['type', 'created_at', 'payload']],
  ])('resolves to rejected with ERR_EVENT_MALFORMED for %j, which is no event', async (value, fields) => {
    const { inbox, receiver, outcomes, lines } = setUp();
    const outcome = await receiver[method](value as UnknownEvent, 'push');
    expect(outcome).toMatchObject({
      kind: 'rejected',
      origin: 'push',
      error: { code: 'ERR_EVENT_MALFORMED', fields },
    });
    expect(outcome.event).toBeUndefined();
    expect(toWebhookResponse(outcome).status).toBe(400);
    expect(outcomes).toEqual([outcome]);
    expect(lines).toHaveLength(1);
    expect(await inbox.find('evt_1')).toBeUndefined();
  });

  test.each(wrongTexts)(
    'resolves to failed with ERR_CONFIG_INVALID for a `json` that is %s, runs and stores nothing',
    async (_, toText) => {
      const { inbox, receiver, handled, outcomes, lines } = setUp();
      const event = anEvent();
      const outcome = await receiver[method](event, 'push', { json: toText(event) as string });
      const message = expect.stringMatching(
        `^receiver\\.${method}: \`json\` must be the JSON of the event, with its \`id\` and \`type\`\\. Pass the text`,
      );
      expect(outcome).toMatchObject({
        kind: 'failed',
        origin: 'push',
        event,
        error: { code: 'ERR_CONFIG_INVALID', message },
      });
      expect(toWebhookResponse(outcome).status).toBe(500);
      expect(outcomes).toEqual([outcome]);
      expect(lines.join()).not.toContain('planted payload');
      expect(handled).toEqual([]);
      expect(await inbox.find(event.id)).toBeUndefined();
    },
  );

  test.each<[string, unknown, string]>([
    ['null', null, 'the options must be an object. They are json, traceparent, waitUntil.'],
    ['a string', 'push', 'the options must be an object. They are json, traceparent, waitUntil.'],
    [
      'an unknown option',
      { text: '{}' },
      'unknown option `text`. The options are json, traceparent, waitUntil.',
    ],
    ['a traceparent that is no string', { traceparent: 7 }, '`traceparent` must be a string.'],
    ['a waitUntil that is no function', { waitUntil: true }, '`waitUntil` must be a function.'],
  ])('resolves to failed with ERR_CONFIG_INVALID for the options: %s', async (_, options, message) => {
    const { inbox, receiver, outcomes } = setUp();
    const event = anEvent();
    const outcome = await receiver[method](event, 'push', options as object);
    expect(outcome).toMatchObject({
      kind: 'failed',
      origin: 'push',
      event,
      error: { code: 'ERR_CONFIG_INVALID', message: `receiver.${method}: ${message}` },
    });
    expect(outcomes).toEqual([outcome]);
    expect(await inbox.find(event.id)).toBeUndefined();
  });

  test('resolves to failed with ERR_CONFIG_INVALID for options that cannot be read', async () => {
    const { inbox, receiver } = setUp();
    const event = anEvent();
    const options = Object.defineProperty({}, 'json', {
      enumerable: true,
      get: () => {
        throw new Error('It is gone.');
      },
    });
    const outcome = await receiver[method](event, 'push', options);
    expect(outcome).toMatchObject({ kind: 'failed', error: { code: 'ERR_CONFIG_INVALID' } });
    expect(await inbox.find(event.id)).toBeUndefined();
  });

  test.each([undefined, null, 'nope', Symbol('push')])(
    'resolves to failed with ERR_CONFIG_INVALID for the origin %s, which there is not, and counts it as push',
    async (origin) => {
      const { inbox, receiver, lines } = setUp();
      const event = anEvent();
      const outcome = await receiver[method](event, origin as 'push');
      expect(outcome).toMatchObject({
        kind: 'failed',
        origin: 'push',
        error: {
          code: 'ERR_CONFIG_INVALID',
          message: `receiver.${method}: \`origin\` must be one of push, pull, queue, redrive.`,
        },
      });
      expect(lines).toHaveLength(1);
      expect(await inbox.find(event.id)).toBeUndefined();
    },
  );

  test('refuses an event of a queue if the inbox is not durable, because it would run again after a restart', async () => {
    const { inbox, receiver, handled, lines } = setUp();
    const event = anEvent();
    const outcome = await receiver[method](event, 'queue');
    expect(outcome).toMatchObject({ kind: 'failed', error: { code: 'ERR_CONFIG_INVALID' } });
    expect(lines).toEqual([
      expect.stringMatching(`receiver.${method}: a \`queue\` needs a durable \`inbox\``),
    ]);
    expect(handled).toEqual([]);
    expect(await inbox.find(event.id)).toBeUndefined();
  });

  test('takes the JSON of the event, which the inbox stores, and a traceparent, from each origin', async () => {
    const { inbox: memory, receiver: other } = setUp();
    const inbox = { ...memory, durable: true };
    const traces: (string | undefined)[] = [];
    const receiver = createReceiver({
      secret,
      inbox,
      handlers: { 'transfer.settled': () => undefined },
      telemetry: {
        ...other.telemetry,
        delivery(_, run, traceparent) {
          traces.push(traceparent);
          return run();
        },
      },
    });
    for (const origin of ['push', 'pull', 'queue', 'redrive'] as const) {
      const event = anEvent();
      const json = JSON.stringify({ ...event, note: 'as it arrived' });
      const outcome = await receiver[method](event, origin, { json, traceparent: `00-${origin}` });
      expect(outcome).toMatchObject({ kind: 'handled', origin, event });
      expect(await inbox.find(event.id)).toMatchObject({ state: 'done', origin, event: JSON.parse(json) });
    }
    expect(traces).toEqual(['00-push', '00-pull', '00-queue', '00-redrive']);
  });
});
