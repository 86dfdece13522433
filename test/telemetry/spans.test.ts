import { context, trace } from '@opentelemetry/api';
import { memoryInbox, PermanentError, type ReceiverOptions } from 'stablehooks';
import { createPoller } from 'stablehooks/catch-up';
import { describe, expect, test } from 'vitest';
import { anEvent, deferred, delivery } from '../receiver/delivery.js';
import { durable } from '../receiver/set-up.js';
import { clientOf, observed, silent, withSdk } from './observed.js';
import { type Recorded, recordTelemetry } from './record-telemetry.js';

const sqlite = withSdk();
const enqueue = async () => undefined;
const thrown = (error: unknown) => () => {
  throw error;
};
const forged = { headers: { 'X-SERVICE-Signature': '0'.repeat(64) } };

/** The operations of the spans that have ended, in this order. */
const operations = ({ spans }: Recorded) =>
  spans().map(({ attributes }) => attributes['messaging.operation.name']);
const spansOf = ({ spans }: Recorded, operation: string) =>
  spans().filter(({ attributes }) => attributes['messaging.operation.name'] === operation);
const spanOf = (recorded: Recorded, operation: string, index = 0) => {
  const span = spansOf(recorded, operation)[index];
  if (span === undefined) throw new Error(`The span ${index} of ${operation} is missing.`);
  return span;
};

test('a delivery is one trace of receive, claim, handler and complete', async () => {
  const { receiver, ...recorded } = observed();
  const event = anEvent();
  await receiver.receive(await delivery(event));
  expect(recorded.spans().map(({ name }) => name)).toEqual([
    'claim transfer.settled',
    'handler transfer.settled',
    'complete transfer.settled',
    'receive transfer.settled',
  ]);
  const receive = spanOf(recorded, 'receive');
  const common = {
    'messaging.system.name': 'stablehooks',
    'messaging.message.id': event.id,
    'stablehooks.event.type': 'transfer.settled',
  };
  for (const [operation, type] of Object.entries({
    claim: 'receive',
    handler: 'process',
    complete: 'settle',
  })) {
    const step = spanOf(recorded, operation);
    expect(step.parentSpanContext?.spanId).toBe(receive.spanContext().spanId);
    expect(step.attributes).toEqual({
      ...common,
      'messaging.operation.name': operation,
      'messaging.operation.type': type,
    });
  }
  expect(receive.attributes).toEqual({
    ...common,
    'messaging.operation.name': 'receive',
    'messaging.operation.type': 'receive',
    'stablehooks.origin': 'push',
    'stablehooks.outcome': 'handled',
    'stablehooks.secret.index': 0,
    'stablehooks.attempt': 1,
  });
});

test.each<[string, string[], Partial<ReceiverOptions>, Parameters<typeof anEvent>[0]?]>([
  [
    'whose handler is synchronous',
    ['claim', 'handler', 'complete'],
    { handlers: { 'transfer.settled': () => 1 } },
  ],
  [
    'whose handler throws',
    ['claim', 'handler', 'fail'],
    { handlers: { 'transfer.settled': thrown(new Error()) } },
  ],
  ['that has no handler', ['ignore'], {}, { type: 'redeem.failed' }],
  ['of an unknown type', ['record'], {}, { type: 'of.tomorrow' }],
  ['that is enqueued', ['record', 'enqueue'], { inbox: durable(), queue: { enqueue } }],
])('an event %s has the spans %j', async (_name, steps, options, overrides) => {
  const { receiver, ...recorded } = observed(options);
  await receiver.receive(await delivery(anEvent(overrides)));
  expect(operations(recorded)).toEqual([...steps, 'receive']);
});

test('in a transaction the completion lasts from the end of the handler to the commit', async () => {
  const [handled, commit] = [deferred(), deferred()];
  const base = memoryInbox();
  const inbox = {
    ...base,
    async transaction(lease: never, effect: (tx: undefined) => Promise<void>) {
      await effect(undefined);
      handled.resolve();
      await commit.promise;
      return base.complete(lease);
    },
  };
  const { receiver, ...recorded } = observed({ inbox });
  const outcome = receiver.receive(await delivery(anEvent()));
  await handled.promise;
  expect(operations(recorded)).toEqual(['claim', 'handler']);
  commit.resolve();
  expect((await outcome).kind).toBe('handled');
  expect(operations(recorded)).toEqual(['claim', 'handler', 'complete', 'receive']);
});

test.each<[string, Record<string, string>, Partial<ReceiverOptions>, object?]>([
  [
    'a handler that throws',
    { handler: 'ERR_HANDLER_FAILED', receive: 'ERR_HANDLER_FAILED' },
    { handlers: { 'transfer.settled': thrown(Object.assign(new Error('planted'), { code: 'EIO' })) } },
  ],
  [
    'an event that no retry helps',
    { handler: 'ERR_HANDLER_PERMANENT', receive: 'ERR_HANDLER_PERMANENT' },
    { handlers: { 'transfer.settled': thrown(new PermanentError('planted')) } },
  ],
  [
    'an inbox that cannot be reached',
    { claim: 'ECONNREFUSED', receive: 'ERR_INBOX_FAILED' },
    {
      inbox: {
        ...memoryInbox(),
        claim: () => Promise.reject(Object.assign(new Error('planted'), { code: 'ECONNREFUSED' })),
      },
    },
  ],
  [
    'an event that another process has claimed meanwhile',
    { complete: 'ERR_LEASE_LOST', receive: 'ERR_LEASE_LOST' },
    { inbox: { ...memoryInbox(), complete: () => false } },
  ],
  ['a forged delivery', { receive: 'ERR_SIGNATURE_MISMATCH' }, {}, forged],
])('the spans of %s have the codes %j and no message', async (_name, codes, options, request) => {
  const { receiver, ...recorded } = observed(options);
  const { kind } = await receiver.receive(await delivery(anEvent(), request));
  const found = recorded
    .spans()
    .flatMap(({ attributes }) =>
      attributes['error.type'] === undefined
        ? []
        : [[attributes['messaging.operation.name'], attributes['error.type']]],
    );
  expect(Object.fromEntries(found)).toEqual(codes);
  // The sender's mistakes and events that wait are not failures of the receiver.
  const isFailure = kind !== 'rejected' && kind !== 'busy';
  expect(spanOf(recorded, 'receive').status).toEqual({ code: isFailure ? 2 : 0 });
  for (const { events } of recorded.spans()) expect(events).toEqual([]);
  const said = recorded.spans().map(({ name, attributes, status }) => ({ name, attributes, status }));
  expect(JSON.stringify(said)).not.toContain('planted');
});

test('the query of an ORM that a handler returns runs once', async () => {
  const query = {
    runs: 0,
    // biome-ignore lint/suspicious/noThenProperty: a query builder runs when it is awaited.
    then(resolve: () => void) {
      query.runs += 1;
      resolve();
    },
  };
  const { receiver, ...recorded } = observed({ handlers: { 'transfer.settled': () => query } });
  expect((await receiver.receive(await delivery(anEvent()))).kind).toBe('handled');
  expect(query.runs).toBe(1);
  expect(operations(recorded)).toEqual(['claim', 'handler', 'complete', 'receive']);
});

test('work that a handler starts is a child of its span', async () => {
  const handler = () => trace.getActiveSpan()?.setAttribute('app.seen', true);
  const { receiver, ...recorded } = observed({ handlers: { 'transfer.settled': handler } });
  await receiver.receive(await delivery(anEvent()));
  expect(spanOf(recorded, 'handler').attributes['app.seen']).toBe(true);
});

test('an overdue handler has its spans in the trace of its delivery, whichever timer ends its wait', async () => {
  const releases = [deferred(), deferred()];
  const waiting = [...releases];
  const { receiver, ...recorded } = observed({
    handlers: { 'transfer.settled': () => waiting.shift()?.promise },
    handlerTimeoutMs: 20,
  });
  const events = [anEvent(), anEvent()];
  await Promise.all(events.map(async (event) => receiver.receive(await delivery(event))));
  for (const { resolve } of releases) resolve();
  await receiver.close();
  for (const { id } of events) {
    const spans = recorded.spans().filter(({ attributes }) => attributes['messaging.message.id'] === id);
    const names = spans.map(({ attributes }) => attributes['messaging.operation.name']);
    expect(names).toEqual(['claim', 'receive', 'handler', 'complete', 'receive']);
    expect(new Set(spans.map((span) => span.spanContext().traceId)).size).toBe(1);
  }
});

test('a handler that runs after the answer has its spans in the trace of its delivery', async () => {
  const { receiver, ...recorded } = observed({ inbox: sqlite(), answer: 'recorded' });
  await receiver.receive(await delivery(anEvent()));
  await receiver.close();
  expect(operations(recorded)).toEqual(['record', 'receive', 'claim', 'handler', 'complete', 'receive']);
  expect(new Set(recorded.spans().map((span) => span.spanContext().traceId)).size).toBe(1);
});

describe('links between traces', () => {
  /** The span of this operation, and not its trace, links to the other span. */
  function expectLink(
    recorded: Recorded,
    operation: string,
    index: number,
    to = spanOf(recorded, 'receive'),
  ) {
    const span = spanOf(recorded, operation, index);
    const { traceId, spanId } = to.spanContext();
    expect(span.links.map((link) => link.context)).toMatchObject([{ traceId, spanId, isRemote: true }]);
    expect(span.spanContext().traceId).not.toBe(traceId);
  }

  test('a job links to the span that enqueued it', async () => {
    const jobs: (string | undefined)[] = [];
    const queue = {
      enqueue: async (_event: unknown, options?: { traceparent?: string | undefined }) =>
        void jobs.push(options?.traceparent),
    };
    const { receiver, ...recorded } = observed({ inbox: sqlite(), queue });
    const event = anEvent();
    await receiver.receive(await delivery(event));
    expect(await receiver.handle(event, 'queue', { traceparent: jobs[0] })).toMatchObject({
      kind: 'handled',
    });
    expectLink(recorded, 'receive', 1, spanOf(recorded, 'enqueue'));
  });
});

test('work of start() and of the timer of a poller belongs to no span that started them', async () => {
  const recorded = recordTelemetry();
  const done = deferred();
  const inbox = sqlite();
  await inbox.record([anEvent()], { dueInMs: 0, origin: 'push' });
  const { receiver } = observed({ inbox, onOutcome: () => done.resolve() }, recorded);
  const polled = deferred();
  const onReport = () => polled.resolve();
  const poller = createPoller({ client: clientOf([]), receiver, logger: silent, onReport });
  const starting = recorded.providers.tracerProvider.getTracer('app').startSpan('start');
  context.with(trace.setSpan(context.active(), starting), () => {
    receiver.start();
    poller.start();
  });
  starting.end();
  await Promise.all([done.promise, polled.promise]);
  await poller.stop();
  await receiver.close();
  expect(operations(recorded)).toEqual(expect.arrayContaining(['poll', 'handler']));
  const { traceId } = starting.spanContext();
  const within = recorded.spans().filter((span) => span.spanContext().traceId === traceId);
  expect(within.map(({ name }) => name)).toEqual(['start']);
});

test('every span ends when a handler in a transaction of SQLite returns a promise', async () => {
  const handler = deferred();
  const { receiver, ...recorded } = observed({
    inbox: sqlite({ transactional: true }),
    handlers: { 'transfer.settled': () => handler.promise },
  });
  await receiver.receive(await delivery(anEvent()));
  handler.resolve();
  await expect.poll(() => operations(recorded)).toContain('handler');
  await new Promise((resolve) => setImmediate(resolve));
  expect(operations(recorded)).toEqual(['claim', 'fail', 'receive', 'handler']);
  expect(recorded.openSpans().map(({ name }) => name)).toEqual([]);
});
