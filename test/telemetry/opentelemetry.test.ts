import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { context, diag, metrics, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import * as conventions from '@opentelemetry/semantic-conventions/incubating';
import Database from 'libsql';
import {
  createReceiver,
  type Inbox,
  memoryInbox,
  PermanentError,
  type ReceiverOptions,
  type Telemetry,
} from 'stablehooks';
import { createPoller } from 'stablehooks/catch-up';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { openTelemetry } from 'stablehooks/opentelemetry';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { anEvent, deferred, delivery, secret } from '../receiver/delivery.js';
import { type Recorded, recordTelemetry } from './record-telemetry.js';

beforeAll(() => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
});
const folder = mkdtempSync(join(tmpdir(), 'telemetry-'));
let files = 0;
afterAll(() => {
  context.disable();
  rmSync(folder, { recursive: true });
});

const sqlite = (options?: Parameters<typeof sqliteInbox>[1]) => {
  files += 1;
  return sqliteInbox(new Database(join(folder, `${files}.db`)), options);
};

/** A receiver that is recorded. */
function observed(
  options: Partial<ReceiverOptions> = {},
  { telemetry, ...recorded }: Recorded & { telemetry?: Telemetry } = recordTelemetry(),
) {
  const receiver = createReceiver({
    secret,
    handlers: { 'transfer.settled': async () => undefined },
    telemetry: telemetry ?? openTelemetry(recorded.providers),
    logger: { warn: () => undefined, error: () => undefined },
    ...options,
  });
  return { receiver, ...recorded };
}

describe('spans', () => {
  test('a delivery is one trace of receive, claim, handler and complete', async () => {
    const { receiver, spans } = observed();
    const event = anEvent();
    await receiver.receive(await delivery(event));
    const [claim, handler, complete, receive, ...others] = spans();
    expect(others).toEqual([]);
    expect([claim, handler, complete, receive].map((span) => span?.name)).toEqual([
      'claim transfer.settled',
      'handler transfer.settled',
      'complete transfer.settled',
      'receive transfer.settled',
    ]);
    for (const child of [claim, handler, complete]) {
      expect(child?.parentSpanContext?.spanId).toBe(receive?.spanContext().spanId);
    }
    expect(receive?.attributes).toEqual({
      'messaging.system.name': 'stablehooks',
      'messaging.operation.name': 'receive',
      'messaging.operation.type': 'receive',
      'messaging.message.id': event.id,
      'stablehooks.event.type': 'transfer.settled',
      'stablehooks.origin': 'push',
      'stablehooks.outcome': 'handled',
      'stablehooks.secret.index': 0,
      'stablehooks.attempt': 1,
    });
  });

  test('in a transaction the completion takes from the end of the handler to the commit', async () => {
    const [handled, commit] = [deferred(), deferred()];
    const base = memoryInbox();
    const inbox: Inbox = {
      ...base,
      async transaction(lease, effect) {
        await effect(undefined);
        handled.resolve();
        await commit.promise;
        return base.complete(lease);
      },
    };
    const { receiver, spans } = observed({ inbox });
    const outcome = receiver.receive(await delivery(anEvent()));
    await handled.promise;
    const names = () => spans().map(({ name }) => name.split(' ')[0]);
    expect(names()).toEqual(['claim', 'handler']);
    commit.resolve();
    expect((await outcome).kind).toBe('handled');
    expect(names()).toEqual(['claim', 'handler', 'complete', 'receive']);
  });

  test('what a handler starts is a child of its span', async () => {
    const recorded = recordTelemetry();
    const { receiver, spans } = observed(
      {
        handlers: {
          'transfer.settled': () => trace.getActiveSpan()?.setAttribute('app.seen', true) && undefined,
        },
      },
      recorded,
    );
    await receiver.receive(await delivery(anEvent()));
    expect(spans().find(({ name }) => name.startsWith('handler'))?.attributes['app.seen']).toBe(true);
  });

  test('a handler that throws has an error type and no message, and its event is failed in a span of its own', async () => {
    const { receiver, spans } = observed({
      handlers: {
        'transfer.settled': () => {
          throw new Error('planted message');
        },
      },
    });
    await receiver.receive(await delivery(anEvent()));
    const names = spans().map(({ name }) => name.split(' ')[0]);
    expect(names).toEqual(['claim', 'handler', 'fail', 'receive']);
    const handler = spans().find(({ name }) => name.startsWith('handler'));
    expect(handler?.attributes['error.type']).toBe('ERR_HANDLER_FAILED');
    expect(handler?.status).toEqual({ code: 2 });
    expect(handler?.events).toEqual([]);
    expect(JSON.stringify(spans().map(({ attributes, status }) => ({ attributes, status })))).not.toContain(
      'planted',
    );
  });

  test('a span of a forged delivery has the code and is no error of ours', async () => {
    const { receiver, spans } = observed();
    await receiver.receive(await delivery(anEvent(), { headers: { 'X-SERVICE-Signature': '0'.repeat(64) } }));
    const [span] = spans();
    expect(span?.attributes).toMatchObject({
      'stablehooks.outcome': 'rejected',
      'error.type': 'ERR_SIGNATURE_MISMATCH',
    });
    expect(span?.status).toEqual({ code: 0 });
    expect(span?.attributes).not.toHaveProperty('messaging.message.id');
  });

  test('the span of an unavailable inbox has the code of its engine', async () => {
    const inbox: Inbox = {
      ...memoryInbox(),
      claim: () => Promise.reject(Object.assign(new Error('planted'), { code: 'ECONNREFUSED' })),
    };
    const { receiver, spans } = observed({ inbox });
    await receiver.receive(await delivery(anEvent()));
    expect(spans().map(({ attributes }) => attributes['error.type'])).toEqual([
      'ECONNREFUSED',
      'ERR_INBOX_FAILED',
    ]);
  });

  test('an event that is redriven links to the delivery that recorded it, in a trace of its own', async () => {
    let fails = true;
    let now = 0;
    const { receiver, spans } = observed({
      inbox: sqlite({ runtime: { now: () => now } }),
      handlers: {
        'transfer.settled': () => {
          if (fails) throw new Error('not yet');
        },
      },
    });
    await receiver.receive(await delivery(anEvent()));
    const push = spans().find(({ name }) => name.startsWith('receive'));
    fails = false;
    now += 60_000;
    await receiver.redrive();
    const redriven = spans().filter(({ name }) => name.startsWith('handler'))[1];
    expect(redriven?.spanContext().traceId).not.toBe(push?.spanContext().traceId);
    expect(redriven?.links.map((link) => link.context)).toMatchObject([
      { traceId: push?.spanContext().traceId, spanId: push?.spanContext().spanId, isRemote: true },
    ]);
    const redrive = spans().find(({ name }) => name === 'redrive');
    expect(redriven?.spanContext().traceId).toBe(redrive?.spanContext().traceId);
  });

  test('an event that push recorded and the poller runs links to the push', async () => {
    const inbox = sqlite();
    const event = anEvent();
    const recorded = recordTelemetry();
    const worker = observed({ inbox }, recorded).receiver;
    // The process dies before its event is enqueued.
    const front = observed(
      {
        inbox,
        queue: { enqueue: () => Promise.reject(new Error('down')) },
      },
      recorded,
    ).receiver;
    await front.receive(await delivery(event));
    const client = {
      events: {
        list: async () => [],
        listWithProblems: async () => ({
          events: [{ ...event, delivered: false }],
          problems: [],
          size: 1,
          servedAt: null,
        }),
      },
    };
    await createPoller({
      client: client as never,
      receiver: worker,
      backfill: true,
      logger: { warn: () => undefined, error: () => undefined },
    }).pollOnce();
    const spans = recorded.spans();
    const push = spans.find(({ attributes }) => attributes['stablehooks.origin'] === 'push');
    const handler = spans.find(({ name }) => name.startsWith('handler'));
    const poll = spans.find(({ name }) => name === 'poll');
    expect(handler?.spanContext().traceId).toBe(poll?.spanContext().traceId);
    expect(handler?.links[0]?.context).toMatchObject({ spanId: push?.spanContext().spanId });
  });

  test('a delivery that enqueues an event which another has recorded links to it', async () => {
    const { receiver, spans } = observed({ inbox: sqlite(), queue: { enqueue: async () => undefined } });
    const event = anEvent();
    await receiver.receive(await delivery(event));
    await receiver.accept(event, 'pull');
    const [pushed, pulled, ...others] = spans().filter(({ name }) => name.startsWith('enqueue'));
    expect(others).toEqual([]);
    expect(pushed?.links).toEqual([]);
    const push = spans().find(({ attributes }) => attributes['stablehooks.origin'] === 'push');
    expect(pulled?.links[0]?.context).toMatchObject({ spanId: push?.spanContext().spanId });
  });

  test('an inbox that cannot say who recorded an event does not keep it from the queue', async () => {
    const inbox = { ...sqlite(), find: () => Promise.reject(new Error('down')) };
    const { receiver } = observed({ inbox, queue: { enqueue: async () => undefined } });
    const event = anEvent();
    await receiver.receive(await delivery(event));
    expect(await receiver.accept(event, 'pull')).toMatchObject({ kind: 'queued' });
  });

  test('an event whose handler runs after the answer links to its delivery', async () => {
    const { receiver, spans } = observed({ inbox: sqlite(), acknowledge: 'recorded' });
    await receiver.receive(await delivery(anEvent()));
    await receiver.close();
    const [push, later, ...others] = spans().filter(({ name }) => name.startsWith('receive'));
    expect(others).toEqual([]);
    expect(push?.attributes['stablehooks.outcome']).toBe('queued');
    expect(later?.attributes['stablehooks.outcome']).toBe('handled');
    const handler = spans().find(({ name }) => name.startsWith('handler'));
    expect(handler?.spanContext().traceId).toBe(later?.spanContext().traceId);
    expect(handler?.links[0]?.context).toMatchObject({ spanId: push?.spanContext().spanId });
  });

  test('a handler without a promise, and one that is not there, give the same spans as any', async () => {
    const { receiver, spans } = observed({ handlers: { 'transfer.settled': () => undefined } });
    await receiver.receive(await delivery(anEvent()));
    await receiver.receive(await delivery(anEvent({ type: 'transfer.failed' })));
    expect(spans().map(({ name }) => name)).toEqual([
      'claim transfer.settled',
      'handler transfer.settled',
      'complete transfer.settled',
      'receive transfer.settled',
      'claim transfer.failed',
      'complete transfer.failed',
      'receive transfer.failed',
    ]);
  });
});

describe('metrics', () => {
  test('outcomes are counted by type, kind, origin and code', async () => {
    const { receiver, metric } = observed({
      handlers: {
        'transfer.settled': () => undefined,
        'redeem.failed': () => {
          throw new PermanentError('never');
        },
      },
    });
    const event = anEvent();
    await receiver.receive(await delivery(event));
    await receiver.receive(await delivery(event));
    await receiver.receive(await delivery(anEvent({ type: 'redeem.failed' })));
    await receiver.receive(await delivery(anEvent({ type: 'of.tomorrow' })));
    await receiver.receive(await delivery('no event'));
    const counted = (await metric('stablehooks.outcomes')).map(({ attributes, value }) => [
      attributes['stablehooks.event.type'],
      attributes['stablehooks.outcome'],
      attributes['error.type'],
      value,
    ]);
    expect(counted).toEqual([
      ['transfer.settled', 'handled', undefined, 1],
      ['transfer.settled', 'duplicate', undefined, 1],
      ['redeem.failed', 'dead', 'ERR_HANDLER_PERMANENT', 1],
      ['_OTHER', 'parked', undefined, 1],
      [undefined, 'rejected', 'ERR_EVENT_MALFORMED', 1],
    ]);
  });

  test('an event that is ignored at each delivery has an age once: when it was done', async () => {
    const { receiver, metric } = observed();
    const event = anEvent({ type: 'redeem.failed' });
    for (const _ of [1, 2, 3]) await receiver.receive(await delivery(event));
    expect(await metric('stablehooks.outcomes')).toMatchObject([{ value: 3 }]);
    expect(await metric('stablehooks.event.age')).toMatchObject([{ value: { count: 1 } }]);
  });

  test('each authentic delivery counts once for its secret, also if its handler runs after the answer', async () => {
    const { receiver, metric } = observed({
      secret: ['whsec_new', secret],
      inbox: sqlite(),
      acknowledge: 'recorded',
    });
    await receiver.receive(await delivery(anEvent()));
    await receiver.close();
    expect(await metric('stablehooks.secret.matches')).toMatchObject([
      { attributes: { 'stablehooks.secret.index': 1 }, value: 1 },
    ]);
  });

  test('the age of an event is measured when it is done, and the attempt that did it', async () => {
    const { receiver, metric } = observed();
    const createdAt = new Date(Date.now() - 3_600_000).toISOString();
    await receiver.receive(await delivery(anEvent({ created_at: createdAt })));
    const [age] = await metric('stablehooks.event.age');
    expect(age?.value).toMatchObject({ count: 1 });
    expect(age?.value).toHaveProperty(
      'sum',
      expect.toSatisfy((sum: number) => sum >= 3_600),
    );
    expect(await metric('stablehooks.attempts')).toMatchObject([{ value: { count: 1, sum: 1 } }]);
  });

  test('handlers, the inbox and the queue are timed under the names of the semantic conventions', async () => {
    const { receiver, metric } = observed();
    await receiver.receive(await delivery(anEvent()));
    const operations = (await metric('messaging.client.operation.duration')).map(
      ({ attributes }) => attributes['messaging.operation.name'],
    );
    expect(operations).toEqual(['claim', 'complete']);
    expect(await metric('messaging.process.duration')).toHaveLength(1);
  });

  test('the events of the inbox are counted by state, each with the age of the oldest', async () => {
    const { receiver, metric } = observed({
      inbox: sqlite(),
      handlers: {
        'transfer.settled': () => {
          throw new PermanentError('never');
        },
      },
    });
    await receiver.receive(await delivery(anEvent()));
    const states = await metric('stablehooks.inbox.events');
    expect(
      Object.fromEntries(
        states.map(({ attributes, value }) => [attributes['stablehooks.inbox.state'], value]),
      ),
    ).toEqual({ received: 0, leased: 0, failed: 0, dead: 1, parked: 0 });
    expect(await metric('stablehooks.inbox.oldest')).toHaveLength(5);
    expect(await metric('stablehooks.poll.watermark_lag')).toEqual([]);
  });

  test('after a poll there are its result, the lag of the watermark and the open gaps', async () => {
    const { receiver, metric } = observed({ inbox: sqlite() });
    const answer = { events: [], problems: [], size: 0, servedAt: null };
    const client = { events: { list: async () => [], listWithProblems: async () => answer } };
    const logger = { warn: () => undefined, error: () => undefined };
    await createPoller({ client: client as never, receiver, logger, lagMs: 60_000 }).pollOnce();
    expect(await metric('stablehooks.polls')).toMatchObject([
      { attributes: { 'stablehooks.poll.result': 'proven' }, value: 1 },
    ]);
    const [lag] = await metric('stablehooks.poll.watermark_lag');
    expect(lag?.value).toBeGreaterThanOrEqual(60);
    expect(await metric('stablehooks.poll.gaps')).toMatchObject([{ value: 0 }]);
  });

  test('inboxMetrics: false asks the inbox nothing', async () => {
    let asked = 0;
    const inbox = memoryInbox();
    const count = () => {
      asked += 1;
      return inbox.count();
    };
    const counting = { ...inbox, count };
    const recorded = recordTelemetry();
    const { receiver, metric } = observed(
      { inbox: counting },
      { ...recorded, telemetry: openTelemetry({ ...recorded.providers, inboxMetrics: false }) },
    );
    await receiver.receive(await delivery(anEvent()));
    expect(await metric('stablehooks.inbox.events')).toEqual([]);
    expect(asked).toBe(0);
  });

  test('an inbox that fails has no value, and the others have theirs', async () => {
    const recorded = recordTelemetry();
    const telemetry = openTelemetry(recorded.providers);
    const failing = { ...memoryInbox(), count: () => Promise.reject(new Error('down')) };
    const first = observed({ inbox: failing }, { ...recorded, telemetry });
    await first.receiver.receive(await delivery(anEvent()));
    expect(await first.metric('stablehooks.inbox.events')).toEqual([]);
    const second = observed({}, { ...recorded, telemetry });
    await second.receiver.receive(await delivery(anEvent()));
    expect(await second.metric('stablehooks.inbox.events')).toHaveLength(5);
  });
});

describe('several receivers with one telemetry', () => {
  const dying = {
    handlers: {
      'transfer.settled': () => {
        throw new PermanentError('never');
      },
    },
  };
  const dead = async ({ metric }: Recorded) =>
    (await metric('stablehooks.inbox.events')).find(
      ({ attributes }) => attributes['stablehooks.inbox.state'] === 'dead',
    )?.value;

  test('the gauges show the worst of their inboxes', async () => {
    const recorded = recordTelemetry();
    const telemetry = openTelemetry(recorded.providers);
    const first = observed({ inbox: sqlite(), ...dying }, { ...recorded, telemetry }).receiver;
    await first.receive(await delivery(anEvent()));
    const second = observed({ inbox: sqlite() }, { ...recorded, telemetry }).receiver;
    await second.receive(await delivery(anEvent()));
    expect(await dead(recorded)).toBe(1);
  });

  test('the inbox of a receiver that is closed is asked no more', async () => {
    let asked = 0;
    const inbox = memoryInbox();
    const count = () => {
      asked += 1;
      return inbox.count();
    };
    const counting = { ...inbox, count };
    const { receiver, metrics } = observed({ inbox: counting });
    await receiver.receive(await delivery(anEvent()));
    await metrics();
    await receiver.close();
    await metrics();
    expect(asked).toBe(1);
  });
});

test('an inbox that hangs delays no collection for longer than 5 s, is said to be unreadable, and is asked once', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => {
    vi.useRealTimers();
  });
  let asked = 0;
  const count = () => {
    asked += 1;
    return new Promise<never>(() => undefined);
  };
  const inbox = { ...memoryInbox(), count };
  const { receiver, metric } = observed({ inbox });
  await receiver.receive(await delivery(anEvent()));
  for (const _ of [1, 2]) {
    let passedMs = 0;
    let isCollected = false;
    const readable = metric('stablehooks.inbox.readable').finally(() => {
      isCollected = true;
    });
    for (; !isCollected; passedMs += 1_000) await vi.advanceTimersByTimeAsync(1_000);
    expect(await readable).toMatchObject([{ value: 0 }]);
    expect(passedMs).toBeLessThan(10_000);
  }
  expect(asked).toBe(1);
});

test('what a handler does after its time limit has its spans, in the trace of its delivery', async () => {
  const release = deferred();
  const { receiver, spans } = observed({
    handlers: { 'transfer.settled': () => release.promise },
    handlerTimeoutMs: 1,
  });
  await receiver.receive(await delivery(anEvent()));
  release.resolve();
  await receiver.close();
  const names = spans().map(({ name }) => name.split(' ')[0]);
  expect(names).toEqual(['claim', 'receive', 'handler', 'complete', 'receive']);
  expect(new Set(spans().map((span) => span.spanContext().traceId)).size).toBe(1);
});

test('an event that another process has claimed meanwhile is completed with the error ERR_LEASE_LOST', async () => {
  const inbox = { ...memoryInbox(), complete: async () => false };
  const { receiver, spans } = observed({ inbox });
  await receiver.receive(await delivery(anEvent()));
  const complete = spans().find(({ name }) => name.startsWith('complete'));
  expect(complete?.attributes['error.type']).toBe('ERR_LEASE_LOST');
});

test('what run() and the timer of a poller run belongs to no span that started them', async () => {
  const recorded = recordTelemetry();
  const done = deferred();
  const inbox = sqlite();
  await inbox.record([anEvent()], { dueInMs: 0, origin: 'push' });
  const { receiver } = observed({ inbox, onOutcome: () => done.resolve() }, recorded);
  const polled = deferred();
  const answer = { events: [], problems: [], size: 0, servedAt: null };
  const client = { events: { list: async () => [], listWithProblems: async () => answer } };
  const logger = { warn: () => undefined, error: () => undefined };
  const poller = createPoller({
    client: client as never,
    receiver,
    logger,
    onReport: () => polled.resolve(),
  });
  const starting = recorded.providers.tracerProvider.getTracer('app').startSpan('start');
  context.with(trace.setSpan(context.active(), starting), () => {
    receiver.run();
    poller.start();
  });
  starting.end();
  await Promise.all([done.promise, polled.promise]);
  await poller.stop();
  await receiver.close();
  const { traceId } = starting.spanContext();
  const others = recorded.spans().filter(({ name }) => name !== 'start');
  expect(others.map(({ name }) => name)).toContain('poll');
  expect(others.filter((span) => span.spanContext().traceId === traceId)).toEqual([]);
});

test('an SDK that starts after the first delivery gets what comes after it', async () => {
  const recorded = recordTelemetry();
  const { receiver } = observed({}, { ...recorded, telemetry: openTelemetry() });
  await receiver.receive(await delivery(anEvent()));
  metrics.setGlobalMeterProvider(recorded.providers.meterProvider);
  onTestFinished(() => metrics.disable());
  await receiver.receive(await delivery(anEvent()));
  expect(await recorded.metric('stablehooks.outcomes')).toMatchObject([{ value: 1 }]);
  expect(await recorded.metric('stablehooks.inbox.readable')).toMatchObject([{ value: 1 }]);
});

test('a receiver says once that it uses its inbox, and once that it is closed, if it used it', async () => {
  const said: string[] = [];
  const telemetry: Telemetry = {
    ...openTelemetry(),
    inboxUsed: () => void said.push('used'),
    inboxClosed: () => void said.push('closed'),
  };
  const { receiver } = observed({ telemetry });
  for (let count = 0; count < 2; count++) await receiver.receive(await delivery(anEvent()));
  expect(said).toEqual(['used']);
  for (let count = 0; count < 2; count++) await receiver.close();
  expect(said).toEqual(['used', 'closed']);
  await observed({ telemetry }).receiver.close();
  expect(said).toEqual(['used', 'closed']);
});

test('attributes of the options are on every span and metric', async () => {
  const recorded = recordTelemetry();
  const telemetry = openTelemetry({ ...recorded.providers, attributes: { 'app.receiver': 'eu' } });
  const { receiver } = observed({}, { ...recorded, telemetry });
  await receiver.receive(await delivery(anEvent()));
  for (const { attributes } of recorded.spans()) expect(attributes['app.receiver']).toBe('eu');
  const metrics = await recorded.metrics();
  expect(metrics.length).toBeGreaterThan(5);
  for (const { name, points } of metrics) {
    for (const { attributes } of points) expect(attributes['app.receiver'], name).toBe('eu');
  }
});

test('providers that throw change no outcome, also if the logger of OpenTelemetry throws', async () => {
  const broken = () => {
    throw new Error('broken');
  };
  diag.setLogger({ error: broken, warn: broken, info: broken, debug: broken, verbose: broken });
  onTestFinished(() => diag.disable());
  const telemetry = openTelemetry({
    tracerProvider: { getTracer: () => ({ startSpan: broken, startActiveSpan: broken }) },
    meterProvider: { getMeter: broken },
  });
  const { receiver } = observed({ telemetry });
  expect(await receiver.receive(await delivery(anEvent()))).toMatchObject({ kind: 'handled' });
  const failing = observed({ telemetry, handlers: { 'transfer.settled': broken } }).receiver;
  expect(await failing.receive(await delivery(anEvent()))).toMatchObject({ kind: 'failed' });
});

test('without an SDK nothing is stored with events', async () => {
  const inbox = memoryInbox();
  const { receiver } = observed({ inbox, telemetry: openTelemetry() });
  const event = anEvent();
  expect(await receiver.receive(await delivery(event))).toMatchObject({ kind: 'handled' });
  expect((await inbox.find(event.id))?.traceparent).toBe(null);
});

test('the trace context of the delivery is stored with its event', async () => {
  const inbox = memoryInbox();
  const { receiver, spans } = observed({ inbox });
  const event = anEvent();
  await receiver.receive(await delivery(event));
  const { traceId, spanId } = spans().at(-1)?.spanContext() ?? {};
  expect((await inbox.find(event.id))?.traceparent).toBe(`00-${traceId}-${spanId}-01`);
});

test('the names are those of the pinned semantic conventions', async () => {
  const { receiver, metrics, spans } = observed();
  await receiver.receive(await delivery(anEvent()));
  const known: ReadonlySet<unknown> = new Set(Object.values(conventions));
  const names = [
    ...spans().flatMap(({ attributes }) => Object.keys(attributes)),
    ...(await metrics()).flatMap(({ name, points }) => [
      name,
      ...points.flatMap(({ attributes }) => Object.keys(attributes)),
    ]),
  ].filter((name) => !name.startsWith('stablehooks.'));
  expect(names.length).toBeGreaterThan(4);
  expect([...new Set(names)].filter((name) => !known.has(name))).toEqual([]);
});
