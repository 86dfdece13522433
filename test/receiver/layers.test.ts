import { createReceiver, decorateInbox, type Layer, memoryInbox, type ReceiverOptions } from 'stablehooks';
import { createPoller } from 'stablehooks/catch-up';
import { expect, test } from 'vitest';
import { anEvent, deferred, delivery, secret } from './delivery.js';

/** A layer with every member, which says when it is entered and left. */
function spy(name: string, said: string[]): Required<Layer> {
  const around = <Result>(seam: string, run: () => Result): Result => {
    said.push(`${name} ${seam}`);
    const result = run();
    const end = () => void said.push(`${name} ${seam} ends`);
    if (result instanceof Promise) void result.then(end, end);
    else end();
    return result;
  };
  return {
    inbox: (next) =>
      decorateInbox(next, {
        claim: (event, options) => around('claim', () => next.claim(event, options)),
        complete: (lease) => around('complete', () => next.complete(lease)),
        record: (events, options) => around('record', () => next.record(events, options)),
      }),
    conclude: (next) => (pass, run, traceparent) => around('conclude', () => next(pass, run, traceparent)),
    handler: (next) => (event, lease, context) => around('handler', () => next(event, lease, context)),
    enqueue: (next) => (event, options) => around('enqueue', () => next(event, options)),
    redrive: (next) => () => around('redrive', next),
    poll: (run) => around('poll', run),
    detached: (run) => around('detached', run),
    opened: (inbox) => void said.push(`${name} opened ${inbox.durable}`),
    closed: (inbox) => void said.push(`${name} closed ${inbox.durable}`),
  };
}

const silent = { warn: () => undefined, error: () => undefined };
const emptyList = {
  events: { listWithProblems: async () => ({ events: [], problems: [], size: 0, servedAt: null }) },
};

/** A receiver in two layers, with others between them. */
function layered(options: Partial<ReceiverOptions> = {}, between: readonly Layer[] = [{}]) {
  const said: string[] = [];
  const receiver = createReceiver({
    secret,
    handlers: { 'transfer.settled': () => undefined },
    use: [spy('outer', said), ...between, spy('inner', said)],
    logger: silent,
    ...options,
  });
  const { durable } = receiver.inbox;
  expect(said.splice(0)).toEqual([`outer opened ${durable}`, `inner opened ${durable}`]);
  return { receiver, said };
}

/** The lines of a seam that both layers wrap once, around these lines. */
const nested = (seam: string, ...within: string[]) => [
  `outer ${seam}`,
  `inner ${seam}`,
  ...within,
  `inner ${seam} ends`,
  `outer ${seam} ends`,
];

const attempt = [...nested('claim'), ...nested('handler'), ...nested('complete')];

test('layers wrap each step of a delivery once, the first layer outermost', async () => {
  const { receiver, said } = layered();
  expect((await receiver.receive(await delivery(anEvent()))).kind).toBe('handled');
  expect(said).toEqual(nested('conclude', ...attempt));
});

test('layers wrap what is recorded and enqueued, and know the inbox of the app', async () => {
  const inbox = { ...memoryInbox(), durable: true };
  const known: unknown[] = [];
  const knowing: Layer = {
    enqueue(next, given) {
      known.push(given);
      return next;
    },
  };
  const { receiver, said } = layered({ inbox, queue: { enqueue: async () => undefined } }, [knowing]);
  expect((await receiver.receive(await delivery(anEvent()))).kind).toBe('queued');
  expect(said).toEqual(nested('conclude', ...nested('record'), ...nested('enqueue')));
  expect(known).toEqual([inbox]);
});

test('layers wrap a redrive and each event in it', async () => {
  const { receiver, said } = layered();
  await receiver.inbox.record([anEvent()], { origin: 'push', dueInMs: 0 });
  expect(await receiver.redrive()).toMatchObject({ handled: 1 });
  expect(said).toEqual(nested('redrive', ...nested('conclude', ...attempt)));
});

test('layers wrap a poll, and the work of timers', async () => {
  const { receiver, said } = layered();
  const polled = deferred();
  const poller = createPoller({
    client: emptyList,
    receiver,
    logger: silent,
    onReport: () => polled.resolve(),
  });
  poller.start();
  await polled.promise;
  await poller.stop();
  const detached = said.filter((line) => / (?:detached|poll)(?: ends)?$/.test(line));
  expect(detached).toEqual(nested('detached', ...nested('poll')));
  receiver.start();
  expect(said.slice(-2)).toEqual(['outer detached', 'inner detached']);
  await receiver.close();
});

test('layers learn once that the receiver is closed', async () => {
  const { receiver, said } = layered();
  await Promise.all([receiver.close(), receiver.close()]);
  await receiver.close();
  expect(said).toEqual(['outer closed false', 'inner closed false']);
});
