/** Layers: what each seam sees, in which order, and that an app without layers pays nothing. */
import type { Inbox, InboxOperations, Layer, PollSummary } from 'stablehooks';
import { createPoller } from 'stablehooks/catch-up';
import type { Client } from 'stablehooks/client';
import { expect, test } from 'vitest';
import { anEvent } from './delivery.js';
import { durable, type SettledHandler, setUp, someEvents, until } from './set-up.js';

function noting(name: string, notes: string[]): Layer {
  const note = (seam: string) => void notes.push(`${name} ${seam}`);
  return {
    conclude: (next) => async (pass, run, traceparent) => {
      note(`conclude ${pass.origin} ${traceparent ?? ''}`.trim());
      const outcome = await next(pass, run, traceparent);
      note(outcome.kind);
      return outcome;
    },
    handler: (next) => (event, lease, context) => {
      note(`handler ${lease.attempt}`);
      return next(event, lease, context);
    },
    step: (next) => (lease, step, run) => {
      note(`step ${step} ${lease.attempt}`);
      return next(lease, step, run);
    },
    enqueue: (next) => (event, options) => {
      note('enqueue');
      return next(event, options);
    },
    poll<Summary extends PollSummary>(run: () => Promise<Summary>) {
      note('poll');
      return run();
    },
    detached(run) {
      note('detached');
      return run();
    },
    opened: () => note('opened'),
    closed: () => note('closed'),
  };
}

test('the first layer is outermost, at each seam that a delivery passes', async () => {
  const notes: string[] = [];
  const handler: SettledHandler = (_event, { step }) => step('pay', () => void notes.push('the step'));
  const { receiver, codeOf } = setUp(handler, {
    use: [noting('a', notes), noting('b', notes)],
  });
  expect(await codeOf()).toBe('handled');
  await receiver.close();
  expect(notes).toEqual([
    ...['a opened', 'b opened', 'a conclude push', 'b conclude push'],
    ...['a handler 1', 'b handler 1', 'a step pay 1', 'b step pay 1', 'the step'],
    ...['b handled', 'a handled', 'a closed', 'b closed'],
  ]);
});

test('a job, a redrive and passes of start() pass their seams', async () => {
  const notes: string[] = [];
  const layer = noting('a', notes);
  const queue = { enqueue: async () => undefined };
  const { receiver, inbox } = setUp(undefined, { inbox: durable(), queue, use: [layer] });
  const event = anEvent();
  notes.length = 0;
  await receiver.accept(event, 'pull', { traceparent: '00-1' });
  await receiver.accept(event, 'pull');
  await receiver.handle(event, 'queue', { traceparent: '00-2' });
  expect(notes).toEqual([
    ...['a conclude pull 00-1', 'a enqueue', 'a queued'],
    ...['a conclude pull', 'a enqueue', 'a queued'],
    ...['a conclude queue 00-2', 'a handler 1', 'a handled'],
  ]);
  notes.length = 0;
  await inbox.record(someEvents(1), { dueInMs: 0, origin: 'pull' });
  await receiver.redrive();
  expect(notes).toEqual(['a conclude redrive', 'a enqueue', 'a queued']);
  notes.length = 0;
  receiver.start();
  await receiver.close();
  expect(notes).toEqual(['a detached', 'a closed']);
});

test('a poll passes its seam, and the events that it finds pass theirs', async () => {
  const notes: string[] = [];
  const { receiver } = setUp(undefined, { use: [noting('a', notes), noting('b', notes)] });
  const list = { events: [], problems: [], size: 0, servedAt: null };
  const client = { events: { listWithProblems: async () => list } } as unknown as Client;
  notes.length = 0;
  await createPoller({ client, receiver }).pollOnce();
  expect(notes.slice(0, 2)).toEqual(['a poll', 'b poll']);
});

test('a handler that runs after its answer passes conclude again, outside of the delivery', async () => {
  const notes: string[] = [];
  const { deliver, handled } = setUp(undefined, {
    inbox: durable(),
    answer: 'recorded',
    use: [noting('a', notes)],
  });
  await deliver();
  await until(() => handled() === 1);
  expect(notes.slice(1)).toEqual([
    ...['a conclude push', 'a queued', 'a conclude push', 'a handler 1', 'a handled'],
  ]);
});

test('a layer with one seam, and one that is a class, work; an error of a handler passes them', async () => {
  class Counting implements Layer {
    #count = 0;
    get count() {
      return this.#count;
    }
    handler(next: Parameters<NonNullable<Layer['handler']>>[0]): typeof next {
      return (...args) => {
        this.#count += 1;
        return next(...args);
      };
    }
  }
  const counting = new Counting();
  const { codeOf } = setUp(() => Promise.reject(new Error('no')), { use: [{}, counting] });
  expect([await codeOf(), counting.count]).toEqual(['ERR_HANDLER_FAILED', 1]);
});

test('a layer that fails around a delivery fails it, so that the service sends it again', async () => {
  const fail = () => {
    throw new Error('no span');
  };
  const { deliver } = setUp(undefined, { use: [{ conclude: () => async () => fail() }] });
  const { kind, error } = await deliver();
  expect([kind, String(error?.cause ?? error)]).toEqual(['failed', expect.stringContaining('no span')]);
});

/** An inbox as an app writes one: a class with private fields, over the memory inbox. */
class OwnInbox implements Inbox {
  readonly durable = true;
  readonly #inbox: Inbox & InboxOperations = durable();
  readonly transaction?: NonNullable<Inbox['transaction']>;
  readonly readSteps?: NonNullable<Inbox['readSteps']>;
  readonly saveStep?: NonNullable<Inbox['saveStep']>;

  constructor(hasOptional: boolean) {
    if (!hasOptional) return;
    this.transaction = async (lease, effect) => {
      await effect(undefined);
      return this.#inbox.complete(lease);
    };
    this.readSteps = (lease) => this.#inbox.readSteps?.(lease) ?? null;
    this.saveStep = (...step) => this.#inbox.saveStep?.(...step) ?? false;
  }
  claim(...args: Parameters<Inbox['claim']>) {
    return this.#inbox.claim(...args);
  }
  ignore(...args: Parameters<Inbox['ignore']>) {
    return this.#inbox.ignore(...args);
  }
  complete(...args: Parameters<Inbox['complete']>) {
    return this.#inbox.complete(...args);
  }
  fail(...args: Parameters<Inbox['fail']>) {
    return this.#inbox.fail(...args);
  }
  record(...args: Parameters<Inbox['record']>) {
    return this.#inbox.record(...args);
  }
  takeDue(...args: Parameters<Inbox['takeDue']>) {
    return this.#inbox.takeDue(...args);
  }
  readNote(...args: Parameters<Inbox['readNote']>) {
    return this.#inbox.readNote(...args);
  }
  writeNote(...args: Parameters<Inbox['writeNote']>) {
    return this.#inbox.writeNote(...args);
  }
  leaseNote(...args: Parameters<Inbox['leaseNote']>) {
    return this.#inbox.leaseNote(...args);
  }
}

test.each([false, true])(
  'an inbox may be a class with private fields, with transactions and steps: %s',
  async (hasOptional) => {
    const inbox = new OwnInbox(hasOptional);
    const handler: SettledHandler = async (_, { step }) => {
      if (hasOptional) expect(await step('payout', () => 7)).toBe(7);
    };
    for (const orderingKey of [undefined, () => 'key']) {
      const { receiver, codeOf } = setUp(handler, { inbox, orderingKey });
      expect(receiver.inbox).toBe(inbox);
      expect([await codeOf(), await codeOf(anEvent({ type: 'redeem.failed' }))]).toEqual([
        'handled',
        'ignored',
      ]);
      await inbox.record(someEvents(2), { dueInMs: 0, origin: 'pull' });
      expect(await receiver.redrive()).toMatchObject({ handled: 2 });
      expect(await codeOf(anEvent({ type: 'mint.completed' }))).toBe('parked');
    }
  },
);
