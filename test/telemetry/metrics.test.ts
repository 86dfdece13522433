import { diag, metrics, SpanStatusCode } from '@opentelemetry/api';
import * as conventions from '@opentelemetry/semantic-conventions/incubating';
import { memoryInbox, PermanentError, SIGNATURE_HEADER, sign } from 'stablehooks';
import { createPoller, type PollerClient, type PollerOptions } from 'stablehooks/catch-up';
import { HEALTH_CHECKS } from 'stablehooks/health';
import { openTelemetry } from 'stablehooks/opentelemetry';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { anEvent, bytesOf, delivery, secret } from '../receiver/delivery.js';
import { clientOf, observed, silent, withSdk } from './observed.js';
import { type Recorded, recordTelemetry } from './record-telemetry.js';

const sqlite = withSdk();
const dying = {
  'transfer.settled': () => {
    throw new PermanentError('never');
  },
};

test('outcomes are counted by type, kind, origin and code', async () => {
  const { receiver, metric } = observed({
    handlers: { 'transfer.settled': () => undefined, 'redeem.failed': dying['transfer.settled'] },
  });
  const event = anEvent();
  const ignored = anEvent({ type: 'redeem.completed' });
  const bodies = [event, event, anEvent({ type: 'redeem.failed' }), ignored, ignored];
  for (const body of [...bodies, anEvent({ type: 'of.tomorrow' }), 'no event']) {
    await receiver.receive(await delivery(body));
  }
  const counted = (await metric('stablehooks.outcomes')).map(({ attributes, value }) => [
    attributes['stablehooks.event.type'],
    attributes['stablehooks.outcome'],
    attributes['error.type'],
    attributes['stablehooks.origin'],
    value,
  ]);
  expect(counted).toEqual([
    ['transfer.settled', 'handled', undefined, 'push', 1],
    ['transfer.settled', 'duplicate', undefined, 'push', 1],
    ['redeem.failed', 'dead', 'ERR_HANDLER_PERMANENT', 'push', 1],
    ['redeem.completed', 'ignored', undefined, 'push', 1],
    ['redeem.completed', 'duplicate', undefined, 'push', 1],
    ['_OTHER', 'parked', undefined, 'push', 1],
    [undefined, 'rejected', 'ERR_EVENT_MALFORMED', 'push', 1],
  ]);
  // An age is measured when an event is done: handled or ignored.
  expect((await metric('stablehooks.event.age')).map(({ value }) => value)).toMatchObject([
    { count: 1 },
    { count: 1 },
  ]);
});

test('a delivery counts with the index of its secret only if that is an old one', async () => {
  const { receiver, metric } = observed({ secret: ['whsec_new', secret] });
  await receiver.receive(await delivery(anEvent()));
  const body = bytesOf(anEvent());
  const signature = await sign(body, { secret: 'whsec_new' });
  await receiver.receive(await delivery(body, { headers: { [SIGNATURE_HEADER]: signature } }));
  const counted = await metric('stablehooks.outcomes');
  expect(counted.map(({ attributes }) => attributes['stablehooks.secret.index'])).toEqual([1, undefined]);
});

test('a handled event has its age and the duration of its handler', async () => {
  const { receiver, metric } = observed();
  const createdAt = new Date(Date.now() - 3_600_000).toISOString();
  await receiver.receive(await delivery(anEvent({ created_at: createdAt })));
  const [age] = await metric('stablehooks.event.age');
  const sum = expect.toSatisfy((seconds: number) => seconds >= 3_600);
  expect(age?.value).toMatchObject({ count: 1, sum });
  expect(await metric('messaging.process.duration')).toMatchObject([
    { attributes: { 'stablehooks.event.type': 'transfer.settled' }, value: { count: 1 } },
  ]);
});

const listed = { ...anEvent(), delivered: false };
const unreachable: PollerClient = {
  events: { listWithProblems: () => Promise.reject(new Error('down')) },
};
const broken: PollerClient = {
  events: {
    listWithProblems: async () => ({
      events: [],
      problems: [{ index: 0, fields: [], value: null }],
      size: 1,
    }),
  },
};

test.each<[string, boolean, string | undefined, PollerClient, Partial<PollerOptions>?]>([
  ['proven', false, undefined, clientOf([])],
  ['proven', true, undefined, clientOf([listed]), { backfill: true }],
  ['unproven', false, 'ERR_API_RESPONSE', unreachable],
  ['gaps', false, 'ERR_EVENT_MALFORMED', broken, { since: new Date(0) }],
])(
  'a poll counts as %s, recovered %s, with the code %s',
  async (result, recovered, code, client, options) => {
    const { receiver, metric, spans } = observed({ inbox: sqlite() });
    await createPoller({ client, receiver, logger: silent, ...options }).pollOnce();
    const attributes = {
      'messaging.system.name': 'stablehooks',
      'stablehooks.poll.result': result,
      'stablehooks.poll.recovered': recovered,
      ...(code && { 'error.type': code }),
    };
    expect(await metric('stablehooks.polls')).toMatchObject([{ attributes, value: 1 }]);
    const poll = spans().find(({ name }) => name === 'poll');
    expect(poll?.attributes).toMatchObject(attributes);
    expect(poll?.status.code).toBe(code === undefined ? SpanStatusCode.UNSET : SpanStatusCode.ERROR);
  },
);

describe('the gauges of the inbox', () => {
  /** An inbox, and how often it was read. */
  function counting(countAll?: () => Promise<never>) {
    const inbox = memoryInbox();
    const spy = vi.fn(countAll ?? (() => inbox.count()));
    const count: typeof inbox.count = (filter) => (filter?.state === 'parked' ? spy() : inbox.count(filter));
    return { inbox: { ...inbox, count }, spy };
  }
  const ofState = async ({ metric }: Recorded, state: string) =>
    (await metric('stablehooks.inbox.events')).find(
      ({ attributes }) => attributes['stablehooks.inbox.state'] === state,
    )?.value;

  test('they count events by state, each with the age of the oldest', async () => {
    const { receiver, metric } = observed({ inbox: sqlite(), handlers: dying });
    await receiver.receive(await delivery(anEvent()));
    const states = (await metric('stablehooks.inbox.events')).map(({ attributes, value }) => [
      attributes['stablehooks.inbox.state'],
      value,
    ]);
    expect(Object.fromEntries(states)).toEqual({ received: 0, leased: 0, failed: 0, dead: 1, parked: 0 });
    expect(await metric('stablehooks.inbox.oldest')).toHaveLength(5);
  });

  test('they repeat what `health` says of each check, by the limits of the option', async () => {
    const recorded = recordTelemetry();
    const layer = openTelemetry({ ...recorded.providers, healthLimits: { requirePush: true } });
    const { receiver, metric } = observed({ inbox: sqlite(), handlers: dying }, { ...recorded, layer });
    const unhealthy = async () =>
      (await metric('stablehooks.health')).flatMap(({ attributes, value }) =>
        value === 2 ? [attributes['stablehooks.health.check']] : [],
      );
    expect(await unhealthy()).toEqual(['refused']);
    await receiver.receive(await delivery(anEvent()));
    expect(await unhealthy()).toEqual(['dead']);
    expect(await metric('stablehooks.health')).toHaveLength(HEALTH_CHECKS.length);
  });

  test('they begin with the receiver and end with it, and an inbox that two share is read once', async () => {
    const { inbox, spy } = counting();
    const recorded = recordTelemetry();
    const layer = openTelemetry(recorded.providers);
    const receivers = [1, 2].map(() => observed({ inbox }, { ...recorded, layer }).receiver);
    await recorded.metrics();
    expect(spy).toHaveBeenCalledTimes(1);
    for (const receiver of receivers) await receiver.close();
    await recorded.metrics();
    expect(spy).toHaveBeenCalledTimes(1);
  });

  test('of several inboxes they show the worst of those that answer', async () => {
    const recorded = recordTelemetry();
    const layer = openTelemetry(recorded.providers);
    const failing = { ...memoryInbox(), count: () => Promise.reject(new Error('down')) };
    observed({ inbox: failing }, { ...recorded, layer });
    expect(await recorded.metric('stablehooks.inbox.events')).toEqual([]);
    const { receiver } = observed({ inbox: sqlite(), handlers: dying }, { ...recorded, layer });
    await receiver.receive(await delivery(anEvent()));
    observed({ inbox: sqlite() }, { ...recorded, layer });
    expect(await ofState(recorded, 'dead')).toBe(1);
  });

  test('inboxMetrics: false asks the inbox nothing', async () => {
    const { inbox, spy } = counting();
    const recorded = recordTelemetry();
    const layer = openTelemetry({ ...recorded.providers, inboxMetrics: false });
    const { receiver, metric } = observed({ inbox }, { ...recorded, layer });
    await receiver.receive(await delivery(anEvent()));
    expect(await metric('stablehooks.outcomes')).toMatchObject([{ value: 1 }]);
    expect(await metric('stablehooks.inbox.events')).toEqual([]);
    expect(spy).not.toHaveBeenCalled();
  });

  test('an inbox that hangs delays a collection for 5 s', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => {
      vi.useRealTimers();
    });
    const { inbox } = counting(() => new Promise<never>(() => undefined));
    const { metric } = observed({ inbox });
    for (const _ of [1, 2]) {
      let passedMs = 0;
      let isCollected = false;
      const events = metric('stablehooks.inbox.events').finally(() => {
        isCollected = true;
      });
      for (; !isCollected; passedMs += 1_000) await vi.advanceTimersByTimeAsync(1_000);
      expect(await events).toEqual([]);
      expect(passedMs).toBeLessThan(10_000);
    }
  });
});

test('an SDK that starts after the first delivery records the deliveries after it', async () => {
  const recorded = recordTelemetry();
  const { receiver } = observed({ inbox: memoryInbox() }, { ...recorded, layer: openTelemetry() });
  await receiver.receive(await delivery(anEvent()));
  metrics.setGlobalMeterProvider(recorded.providers.meterProvider);
  onTestFinished(() => metrics.disable());
  await receiver.receive(await delivery(anEvent()));
  expect(await recorded.metric('stablehooks.outcomes')).toMatchObject([{ value: 1 }]);
  expect(await recorded.metric('stablehooks.inbox.events')).toHaveLength(5);
});

test('every span and metric has the attributes of the options, the names of the pinned conventions, and nothing confidential', async () => {
  const recorded = recordTelemetry();
  const layer = openTelemetry({ ...recorded.providers, attributes: { 'app.receiver': 'eu' } });
  const throws = () => {
    throw new Error('planted');
  };
  const options = { inbox: memoryInbox(), handlers: { 'redeem.failed': throws } };
  const { receiver } = observed(options, { ...recorded, layer });
  for (const type of ['transfer.settled', 'redeem.failed']) {
    await receiver.receive(await delivery(anEvent({ type, payload: { memo: 'planted' } })));
  }
  await createPoller({ client: clientOf([]), receiver, logger: silent }).pollOnce();
  const collected = await recorded.metrics();
  expect(collected).toHaveLength(7);
  const all = [...recorded.spans(), ...collected.flatMap(({ points }) => points)];
  const said = recorded.spans().map(({ name, status, events, links }) => ({ name, status, events, links }));
  const words = JSON.stringify([said, all.map(({ attributes }) => attributes)]);
  expect(words).toContain('ERR_HANDLER_FAILED');
  expect(words).not.toMatch(new RegExp(`planted|${secret}|[0-9a-f]{64}`));
  for (const { attributes } of all) expect(attributes['app.receiver']).toBe('eu');
  const known: ReadonlySet<unknown> = new Set(Object.values(conventions));
  const names = new Set([
    ...all.flatMap(({ attributes }) => Object.keys(attributes)),
    ...collected.map(({ name }) => name),
  ]);
  const ofConventions = [...names].filter((name) => !/^(?:stablehooks|app)\./.test(name));
  expect(ofConventions.length).toBeGreaterThan(4);
  expect(ofConventions.filter((name) => !known.has(name))).toEqual([]);
});

test('providers that throw change no outcome, and their errors go to the diagnostic logger', async () => {
  const broken = () => {
    throw new Error('broken');
  };
  const error = vi.fn();
  diag.setLogger({ error, warn: broken, info: broken, debug: broken, verbose: broken });
  onTestFinished(() => diag.disable());
  const layer = openTelemetry({
    tracerProvider: { getTracer: () => ({ startSpan: broken, startActiveSpan: broken }) },
    meterProvider: { getMeter: broken },
  });
  const { receiver } = observed({ use: [layer] });
  expect(await receiver.receive(await delivery(anEvent()))).toMatchObject({ kind: 'handled' });
  const failing = observed({ use: [layer], handlers: { 'transfer.settled': broken } }).receiver;
  expect(await failing.receive(await delivery(anEvent()))).toMatchObject({ kind: 'failed' });
  expect(error).toHaveBeenCalledWith(
    'stablehooks: a provider, sampler or processor threw an error.',
    '_OTHER',
  );
});
