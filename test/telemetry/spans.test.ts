import { context, SpanStatusCode, TraceFlags, trace } from '@opentelemetry/api';
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  NodeTracerProvider,
  type Sampler,
} from '@opentelemetry/sdk-trace-node';
import { memoryInbox, PermanentError, type ReceiverOptions, RetryLater } from 'stablehooks';
import { createPoller } from 'stablehooks/catch-up';
import { openTelemetry } from 'stablehooks/opentelemetry';
import { expect, test } from 'vitest';
import { anEvent, deferred, delivery } from '../receiver/delivery.js';
import { durable } from '../receiver/set-up.js';
import { clientOf, observed, silent, withSdk } from './observed.js';
import { type Recorded, recordTelemetry } from './record-telemetry.js';

const sqlite = withSdk();
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

test('a delivery is one trace of receive and handler', async () => {
  const { receiver, ...recorded } = observed();
  const event = anEvent();
  await receiver.receive(await delivery(event));
  expect(recorded.spans().map(({ name }) => name)).toEqual([
    'handler transfer.settled',
    'receive transfer.settled',
  ]);
  const [handler, receive] = [spanOf(recorded, 'handler'), spanOf(recorded, 'receive')];
  expect(handler.parentSpanContext?.spanId).toBe(receive.spanContext().spanId);
  const common = {
    'messaging.system.name': 'stablehooks',
    'messaging.message.id': event.id,
    'stablehooks.event.type': 'transfer.settled',
  };
  expect(handler.attributes).toEqual({
    ...common,
    'messaging.operation.name': 'handler',
    'messaging.operation.type': 'process',
  });
  expect(receive.attributes).toEqual({
    ...common,
    'messaging.operation.name': 'receive',
    'messaging.operation.type': 'receive',
    'stablehooks.origin': 'push',
    'stablehooks.outcome': 'handled',
    'stablehooks.attempt': 1,
  });
});

test.each<[string, string[], Partial<ReceiverOptions>, Parameters<typeof anEvent>[0]?]>([
  ['whose handler is synchronous', ['handler'], { handlers: { 'transfer.settled': () => 1 } }],
  ['whose handler throws', ['handler'], { handlers: { 'transfer.settled': thrown(new Error()) } }],
  ['that has no handler', [], {}, { type: 'redeem.failed' }],
  ['of an unknown type', [], {}, { type: 'of.tomorrow' }],
  ['that is enqueued', [], { inbox: durable(), queue: { enqueue: async () => undefined } }],
])('an event %s has the spans %j and receive', async (_name, within, options, overrides) => {
  const { receiver, ...recorded } = observed(options);
  await receiver.receive(await delivery(anEvent(overrides)));
  expect(operations(recorded)).toEqual([...within, 'receive']);
});

test('a step that runs has a span within the handler, and a stored result has none', async () => {
  let fails = true;
  let now = 0;
  const { receiver, ...recorded } = observed({
    inbox: sqlite({ runtime: { now: () => now } }),
    handlers: {
      'transfer.settled': async (_event, { step }) => {
        await step('payout', () => void trace.getActiveSpan()?.setAttribute('app.seen', true));
        await step('mail', () => {
          if (fails) throw Object.assign(new Error('planted'), { code: 'ECONNREFUSED' });
        });
      },
    },
  });
  const event = anEvent();
  await receiver.receive(await delivery(event));
  fails = false;
  now += 60_000;
  await receiver.redrive();
  const steps = spansOf(recorded, 'step');
  expect(steps.map(({ name }) => name)).toEqual(['step payout', 'step mail', 'step mail']);
  expect(steps[0]?.attributes).toEqual({
    'messaging.system.name': 'stablehooks',
    'messaging.operation.name': 'step',
    'messaging.message.id': event.id,
    'stablehooks.step.name': 'payout',
    'app.seen': true,
  });
  const handler = spanOf(recorded, 'handler').spanContext();
  expect(steps[0]?.parentSpanContext?.spanId).toBe(handler.spanId);
  expect(steps.map(({ attributes }) => attributes['error.type'])).toEqual([
    undefined,
    'ECONNREFUSED',
    undefined,
  ]);
});

test('a handler that asks for a later attempt has not failed', async () => {
  const later = thrown(new RetryLater({ afterMs: 1_000, reason: 'not yet' }));
  const { receiver, ...recorded } = observed({
    inbox: sqlite(),
    handlers: { 'transfer.settled': async (_event, { step }) => void (await step('wait', later)) },
  });
  expect((await receiver.receive(await delivery(anEvent()))).kind).toBe('queued');
  expect(operations(recorded)).toEqual(['step', 'handler', 'receive']);
  for (const { attributes, status } of recorded.spans()) {
    expect([attributes['error.type'], status.code]).toEqual([undefined, SpanStatusCode.UNSET]);
  }
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
    { receive: 'ERR_INBOX_FAILED' },
    { inbox: { ...memoryInbox(), claim: () => Promise.reject(new Error('planted')) } },
  ],
  [
    'an event that another process has claimed meanwhile',
    { receive: 'ERR_LEASE_LOST' },
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
  const code = isFailure ? SpanStatusCode.ERROR : SpanStatusCode.UNSET;
  expect(spanOf(recorded, 'receive').status).toEqual({ code });
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
  expect(operations(recorded)).toEqual(['handler', 'receive']);
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
    expect(names).toEqual(['receive', 'handler', 'receive']);
    expect(new Set(spans.map((span) => span.spanContext().traceId)).size).toBe(1);
  }
});

test('a handler that runs after the answer has its spans in the trace of its delivery', async () => {
  const { receiver, ...recorded } = observed({ inbox: sqlite(), answer: 'recorded' });
  await receiver.receive(await delivery(anEvent()));
  await receiver.close();
  expect(operations(recorded)).toEqual(['receive', 'handler', 'receive']);
  expect(new Set(recorded.spans().map((span) => span.spanContext().traceId)).size).toBe(1);
});

test('a retry and a poll are traces without links, and their spans have the id of the event', async () => {
  let fails = true;
  let now = 0;
  const { receiver, ...recorded } = observed({
    inbox: sqlite({ runtime: { now: () => now } }),
    handlers: {
      'transfer.settled': () => {
        if (fails) throw new Error('not yet');
      },
    },
  });
  const pushed = anEvent();
  await receiver.receive(await delivery(pushed));
  fails = false;
  now += 60_000;
  await receiver.redrive();
  const listed = anEvent();
  const client = clientOf([{ ...listed, delivered: false }]);
  await createPoller({ client, receiver, backfill: true, logger: silent }).pollOnce();
  const handled = spansOf(recorded, 'handler');
  expect(handled.map(({ attributes }) => attributes['messaging.message.id'])).toEqual([
    pushed.id,
    pushed.id,
    listed.id,
  ]);
  expect(new Set(handled.map((span) => span.spanContext().traceId)).size).toBe(3);
  const poll = spanOf(recorded, 'poll');
  expect(handled[2]?.spanContext().traceId).toBe(poll.spanContext().traceId);
  expect(poll.attributes).toMatchObject({
    'messaging.operation.type': 'receive',
    'stablehooks.poll.recovered': true,
  });
  expect(recorded.spans().flatMap(({ links }) => links)).toEqual([]);
});

test.each<[string, Sampler | undefined, number?]>([
  ['that links to its delivery', new AlwaysOnSampler(), TraceFlags.SAMPLED],
  ['that links to its delivery, which is not sampled', new AlwaysOffSampler(), TraceFlags.NONE],
  ['without a link if its delivery has no trace', undefined],
])('a job is a trace of its own %s', async (_name, sampler, traceFlags) => {
  const tracerProvider = sampler && new NodeTracerProvider({ sampler });
  const jobs: (string | undefined)[] = [];
  const queue = {
    enqueue: async (_event: unknown, options?: { traceparent?: string | undefined }) =>
      void jobs.push(options?.traceparent),
  };
  const inbox = sqlite();
  const event = anEvent();
  const web = observed({ inbox, queue, use: [openTelemetry({ tracerProvider })] }).receiver;
  await web.receive(await delivery(event));
  const { receiver: worker, ...recorded } = observed({ inbox });
  const [traceparent] = jobs;
  expect(await worker.handle(event, 'queue', { traceparent })).toMatchObject({ kind: 'handled' });
  const { links } = spanOf(recorded, 'receive');
  const [, traceId, spanId] = traceparent?.split('-') ?? [];
  const context = { traceId, spanId, traceFlags, isRemote: true };
  expect(links).toMatchObject(traceparent === undefined ? [] : [{ context }]);
  expect(links).toHaveLength(sampler === undefined ? 0 : 1);
  expect(spanOf(recorded, 'receive').spanContext().traceId).not.toBe(traceId);
});

test.each(['', 'trace', `00-${'0'.repeat(32)}-${'0'.repeat(16)}-01`])(
  'a job with the traceparent %j has no link',
  async (traceparent) => {
    const { receiver, ...recorded } = observed({ inbox: sqlite() });
    await receiver.handle(anEvent(), 'queue', { traceparent });
    expect(spanOf(recorded, 'receive').links).toEqual([]);
  },
);

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
  expect(operations(recorded)).toEqual(['receive', 'handler']);
  expect(recorded.openSpans().map(({ name }) => name)).toEqual([]);
});
