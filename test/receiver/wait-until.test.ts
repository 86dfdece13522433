import { setImmediate } from 'node:timers/promises';
import { createReceiver, memoryInbox, type Outcome, type ReceiverOptions } from 'stablehooks';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { anEvent, deferred, delivery, secret } from './delivery.js';

type SettledHandler = NonNullable<ReceiverOptions['handlers']['transfer.settled']>;

/** A receiver that answers once an event is recorded, its outcomes and its lines. */
function recording(handler: SettledHandler, options: Partial<ReceiverOptions> = {}) {
  const outcomes: Outcome[] = [];
  const lines: string[] = [];
  const write = (line: string) => void lines.push(line);
  const receiver = createReceiver({
    secret,
    acknowledge: 'recorded',
    inbox: { ...memoryInbox(), durable: true },
    handlers: { 'transfer.settled': handler },
    onOutcome: (outcome) => void outcomes.push(outcome),
    logger: { warn: write, error: write },
    ...options,
  });
  /** Delivers a new event, and resolves with its outcome and what was given to `waitUntil`. */
  const deliver = async (event = anEvent()) => {
    let work: Promise<unknown> | undefined;
    const request = await delivery(event);
    const waitUntil = (given: Promise<unknown>) => {
      work = given;
    };
    const outcome = await receiver.receive({ ...request, waitUntil });
    return { outcome, work };
  };
  return { receiver, outcomes, lines, deliver };
}

/** Whether the promise is settled, once all that can run has run. */
async function isSettled(promise: Promise<unknown> | undefined): Promise<boolean> {
  let settled = false;
  promise?.finally(() => {
    settled = true;
  });
  await setImmediate();
  return settled;
}

describe('waitUntil', () => {
  test('waitUntil gets a promise that resolves once the handler has ended and the event is done', async () => {
    const started = deferred();
    const gate = deferred();
    const { deliver, outcomes } = recording(() => {
      started.resolve();
      return gate.promise;
    });

    const { outcome, work } = await deliver();
    await started.promise;

    expect(outcome.kind).toBe('queued');
    expect(await isSettled(work)).toBe(false);
    gate.resolve();
    await work;
    expect(outcomes.map(({ kind }) => kind)).toEqual(['queued', 'handled']);
  });

  test('a handler that fails after the answer does not reject what waitUntil got', async () => {
    const { deliver, outcomes } = recording(() => Promise.reject(new Error('no')));

    await (await deliver()).work;

    expect(outcomes.map(({ kind }) => kind)).toEqual(['queued', 'failed']);
  });

  test('what waitUntil got resolves only when a handler that outlived handlerTimeoutMs has ended', async () => {
    const gate = deferred();
    const reported = deferred();
    const { deliver, outcomes } = recording(() => gate.promise, {
      handlerTimeoutMs: 20,
      onOutcome: (outcome) => {
        outcomes.push(outcome);
        if (outcome.kind === 'failed') reported.resolve();
      },
    });

    const { work } = await deliver();
    await reported.promise;

    expect(await isSettled(work)).toBe(false);
    gate.resolve();
    await work;
    expect(outcomes.map(({ kind }) => kind)).toEqual(['queued', 'failed', 'handled']);
  });

  test('what waitUntil got resolves when the lease of a handler that never ends has lapsed', async () => {
    const never = () => new Promise<void>(() => undefined);
    const { deliver, lines } = recording(never, { handlerTimeoutMs: 20, leaseMs: 40 });

    await (await deliver()).work;

    expect(lines.join('\n')).toContain('ERR_LEASE_LOST');
  });

  test('waitUntil of a delivery that finds no free slot gets what runs its event later', async () => {
    const gate = deferred();
    const ran: string[] = [];
    const { deliver } = recording(
      async ({ id }) => {
        ran.push(id);
        if (ran.length === 1) await gate.promise;
      },
      { maxConcurrency: 1 },
    );
    const [first, second] = [anEvent(), anEvent()];

    await deliver(first);
    const { outcome, work } = await deliver(second);

    expect(outcome.kind).toBe('queued');
    expect(await isSettled(work)).toBe(false);
    gate.resolve();
    await work;
    expect(ran).toEqual([first.id, second.id]);
  });

  test('waitUntil of a delivery that is answered after its handler gets a handler that outlived handlerTimeoutMs', async () => {
    const gate = deferred();
    const { deliver, outcomes } = recording(() => gate.promise, {
      acknowledge: 'handled',
      handlerTimeoutMs: 20,
    });

    const { outcome, work } = await deliver();

    expect(outcome.error?.code).toBe('ERR_HANDLER_TIMEOUT');
    expect(work).toBeDefined();
    expect(await isSettled(work)).toBe(false);
    gate.resolve();
    await work;
    expect(outcomes.map(({ kind }) => kind)).toEqual(['failed', 'handled']);
  });

  test('what waitUntil of such a delivery got resolves when the lease of a handler that never ends has lapsed', async () => {
    const never = () => new Promise<void>(() => undefined);
    const { deliver, lines } = recording(never, {
      acknowledge: 'handled',
      handlerTimeoutMs: 20,
      leaseMs: 40,
    });

    const { work } = await deliver();

    expect(work).toBeDefined();
    await work;
    expect(lines.join('\n')).toContain('ERR_LEASE_LOST');
  });

  test('waitUntil of a delivery that waits for its key gets its handler also when that outlives handlerTimeoutMs', async () => {
    const [begun, gate, reported] = [deferred(), deferred(), deferred()];
    const late = deferred();
    let count = 0;
    const { deliver } = recording(
      async () => {
        count += 1;
        if (count === 1) {
          begun.resolve();
          return await gate.promise;
        }
        return await late.promise;
      },
      {
        orderingKey: () => 'key',
        handlerTimeoutMs: 20,
        leaseMs: 600_000,
        onOutcome: ({ event, error }) => {
          if (event?.id === second.id && error?.code === 'ERR_HANDLER_TIMEOUT') reported.resolve();
        },
      },
    );
    const second = anEvent();
    const first = await deliver();
    await begun.promise;
    await deliver(second);
    gate.resolve();
    await reported.promise;

    expect(await isSettled(first.work)).toBe(false);
    late.resolve();
    await first.work;
    expect(count).toBe(2);
  });

  test.each(['accept', 'handle'] as const)(
    'waitUntil of %s gets a handler that outlived handlerTimeoutMs, and is not called otherwise',
    async (method) => {
      const gate = deferred();
      const { receiver, lines } = recording(({ id }) => (id === slow.id ? gate.promise : undefined), {
        acknowledge: 'handled',
        handlerTimeoutMs: 20,
      });
      const slow = anEvent();
      const waitUntil = vi.fn((_work: Promise<unknown>) => {
        throw new TypeError('Illegal invocation');
      });

      expect((await receiver[method](anEvent(), 'pull', { waitUntil })).kind).toBe('handled');
      expect(waitUntil).not.toHaveBeenCalled();
      const { error } = await receiver[method](slow, 'pull', { waitUntil });
      expect(error?.code).toBe('ERR_HANDLER_TIMEOUT');
      const work = waitUntil.mock.lastCall?.[0];
      expect(lines.join('\n')).toMatch(/waitUntil threw an error.*Illegal invocation/);
      expect(work).toBeDefined();
      expect(await isSettled(work)).toBe(false);
      gate.resolve();
      await work;
      expect((await receiver[method](slow, 'pull')).kind).toBe('duplicate');
    },
  );

  test('redrive resolves when a handler that outlived handlerTimeoutMs has ended, its signal aborts, or waitUntil has got it', async () => {
    const inbox = { ...memoryInbox(), durable: true };
    const gate = deferred();
    let reported = deferred();
    const { receiver } = recording(() => gate.promise, { inbox, handlerTimeoutMs: 20, leaseMs: 600_000 });
    const onOutcome = () => reported.resolve();

    await inbox.record([anEvent()], { dueInMs: 0, origin: 'pull' });
    const redriven = receiver.redrive({ onOutcome });
    await reported.promise;
    expect(await isSettled(redriven)).toBe(false);

    const controller = new AbortController();
    reported = deferred();
    await inbox.record([anEvent()], { dueInMs: 0, origin: 'pull' });
    const stopped = receiver.redrive({ onOutcome, signal: controller.signal });
    await reported.promise;
    expect(await isSettled(stopped)).toBe(false);
    controller.abort();
    expect(await stopped).toMatchObject({ failed: 1 });
    expect(await isSettled(redriven)).toBe(false);

    const waitUntil = vi.fn((_work: Promise<unknown>) => undefined);
    await inbox.record([anEvent()], { dueInMs: 0, origin: 'pull' });
    expect(await receiver.redrive({ waitUntil })).toMatchObject({ failed: 1 });
    expect(await isSettled(waitUntil.mock.lastCall?.[0])).toBe(false);

    gate.resolve();
    expect(await redriven).toMatchObject({ failed: 1 });
    await waitUntil.mock.lastCall?.[0];
    expect(await receiver.redrive({ waitUntil })).toMatchObject({ failed: 0 });
    expect(waitUntil).toHaveBeenCalledOnce();
  });

  test('a waitUntil that throws is logged, and the delivery is answered and its handler runs', async () => {
    const ran = deferred();
    const { receiver, lines } = recording(() => ran.resolve());
    const request = await delivery(anEvent());
    const waitUntil = () => {
      throw new TypeError('Illegal invocation');
    };

    expect((await receiver.receive({ ...request, waitUntil })).kind).toBe('queued');
    await ran.promise;
    expect(lines.join('\n')).toMatch(/waitUntil threw an error.*Illegal invocation/);
  });

  test("waitUntil is not called for a delivery that is answered after its handler, or that isn't authentic", async () => {
    const waitUntil = vi.fn();
    const handled = recording(() => undefined, { acknowledge: 'handled' }).receiver;
    const { receiver } = recording(() => undefined);
    const forged = await delivery(anEvent(), { headers: { 'x-service-signature': '0'.repeat(64) } });

    await handled.receive({ ...(await delivery(anEvent())), waitUntil });
    await receiver.receive({ ...forged, waitUntil });

    expect(waitUntil).not.toHaveBeenCalled();
  });
});

describe('on a platform that stops functions', () => {
  test.each([
    ['VERCEL', 'Vercel stops a function'],
    ['AWS_LAMBDA_FUNCTION_NAME', 'AWS Lambda stops a function'],
  ])(
    'with %s set, deliveries without waitUntil are logged once, and those with it are not',
    async (name, line) => {
      vi.stubEnv(name, 'x');
      onTestFinished(() => void vi.unstubAllEnvs());
      const { receiver, deliver, lines } = recording(() => undefined);

      await (await deliver()).work;
      expect(lines).toEqual([]);
      for (let count = 0; count < 2; count++) await receiver.receive(await delivery(anEvent()));
      await receiver.close();

      expect(lines).toEqual([expect.stringContaining(line)]);
      // The others have no such option.
      expect(lines[0]).toMatch(/toFetchHandler with `waitUntil`.*toNextRoute with `after`.*toLambdaHandler/);
    },
  );

  test('on Cloudflare Workers deliveries without waitUntil are logged once', async () => {
    vi.stubGlobal('navigator', { userAgent: 'Cloudflare-Workers' });
    onTestFinished(() => void vi.unstubAllGlobals());
    const { receiver, lines } = recording(() => undefined);

    for (let count = 0; count < 2; count++) await receiver.receive(await delivery(anEvent()));
    await receiver.close();

    expect(lines).toEqual([expect.stringContaining('Cloudflare Workers stops a function')]);
  });

  test('nothing is logged where no platform is known to stop functions', async () => {
    const { receiver, lines } = recording(() => undefined);

    await receiver.receive(await delivery(anEvent()));
    await receiver.close();

    expect(lines).toEqual([]);
  });

  test('nothing is logged where deliveries are answered after their handlers', async () => {
    vi.stubEnv('VERCEL', '1');
    onTestFinished(() => void vi.unstubAllEnvs());
    const { receiver, lines } = recording(() => undefined, { acknowledge: 'handled' });

    await receiver.receive(await delivery(anEvent()));

    expect(lines).toEqual([]);
  });
});
