import Database from 'libsql';
import { type Inbox, type InboxOperations, type Outcome, PermanentError, RetryLater } from 'stablehooks';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { describe, expect, test } from 'vitest';
import { anEvent } from './delivery.js';
import { durable, leaseOf, type SettledHandler, setUp } from './set-up.js';

type Context = Parameters<SettledHandler>[1];

/** Handles one event with each handler in turn, as one attempt each. */
async function attempts(
  handlers: readonly ((context: Context) => unknown)[],
  inbox: Inbox & InboxOperations = durable(),
) {
  const event = anEvent();
  const outcomes: Outcome[] = [];
  for (const handler of handlers) {
    if ((await inbox.find(event.id))?.state === 'failed') await inbox.requeue(event.id);
    const { deliver } = setUp((_, context) => handler(context), { inbox });
    outcomes.push(await deliver(event));
  }
  const reasonOf = ({ error }: Outcome) => String(error?.cause ?? error);
  return { inbox, event, outcomes, kinds: outcomes.map(({ kind }) => kind), reasons: outcomes.map(reasonOf) };
}

const fail = () => {
  throw new Error('no');
};

test('a step runs once: a later attempt, in any receiver of the inbox, gets its result', async () => {
  let paid = 0;
  const results: unknown[] = [];
  const run = async ({ step }: Context) => {
    results.push(await step('payout', async () => ({ id: ++paid })));
    results.push(await step('mail', () => undefined));
  };
  const { kinds } = await attempts([(context) => run(context).then(fail), run]);
  expect(kinds).toEqual(['failed', 'handled']);
  expect(results).toEqual([{ id: 1 }, undefined, { id: 1 }, undefined]);
  expect(paid).toBe(1);
});

test.each([
  [60_000, 'failed', 0],
  [30_000, 'handled', 1],
])(
  'a step of a process that was frozen for %i ms of its lease of 60 s while it asked what is stored: %s',
  async (frozenMs, kind, times) => {
    const inbox = durable();
    let [paid, elapsed] = [0, 0];
    const readSteps: Inbox['readSteps'] = async (lease) => {
      const steps = await inbox.readSteps?.(lease);
      elapsed += frozenMs;
      return steps ?? null;
    };
    const { deliver } = setUp((_, { step }) => step('payout', () => ++paid), {
      inbox: { ...inbox, readSteps },
      runtime: { elapsed: () => elapsed },
      ...{ leaseMs: 60_000, handlerTimeoutMs: 59_000 },
    });
    const outcome = await deliver(anEvent());
    expect([outcome.kind, paid]).toEqual([kind, times]);
  },
);

test('a step that fails while the handler runs fails it, unless the handler awaits the step', async () => {
  const turn = () => new Promise<void>((resolve) => setImmediate(resolve));
  const { kinds, reasons } = await attempts([
    async ({ step }) => {
      void step('payout', fail);
      await turn();
    },
    async ({ step }) => {
      await Promise.all([step('payout', fail), turn()]).catch(() => undefined);
    },
  ]);
  expect(kinds).toEqual(['failed', 'handled']);
  expect(reasons[0]).toContain('no');
});

test('a step that the handler does not await is part of the handler', async () => {
  const paid: string[] = [];
  const pay = async (name: string) => {
    await new Promise<void>((resolve) => setImmediate(resolve));
    paid.push(name);
  };
  const { kinds, inbox, event } = await attempts([
    ({ step }) => {
      void step('payout', () => pay('returned'));
    },
  ]);
  expect([kinds, paid]).toEqual([['handled'], ['returned']]);
  expect(await inbox.steps(event.id)).toMatchObject([{ name: 'payout' }]);

  const thrown = await attempts([
    ({ step }) => {
      void step('payout', () => pay('thrown'));
      fail();
    },
    async ({ step }) => step('payout', () => pay('repeated')),
  ]);
  expect([thrown.kinds, paid]).toEqual([
    ['failed', 'handled'],
    ['returned', 'thrown'],
  ]);
});

test('a step that rejects fails the handler that did not await it, and ends no process', async () => {
  const { kinds, reasons } = await attempts([
    ({ step }) => {
      void step('payout', async () => fail());
    },
  ]);
  expect([kinds, reasons]).toEqual([['failed'], ['Error: no']]);
});

test('a step that begins after its handler has ended is refused with the fix', async () => {
  let late: Context['step'] | undefined;
  await attempts([
    async ({ step }) => {
      late = step;
      await step('first', () => undefined);
    },
  ]);
  await expect(late?.('second', () => undefined)).rejects.toThrow(
    'the handler has ended, so step second did not run. Await every step in the handler.',
  );
});

test('an unknown effect makes the event dead, even if the handler catches it', async () => {
  const run = async ({ step }: Context) => {
    await step('payout', async () => fail(), { onInterrupted: 'fail' }).catch(() => undefined);
  };
  const { kinds, reasons } = await attempts([run]);
  expect(kinds).toEqual(['dead']);
  expect(reasons[0]).toMatch(/no$/);
});

test('a misspelt option of a step is refused, and the step does not run', async () => {
  let paid = 0;
  const wrong = { onInterupted: 'fail' } as object;
  const { kinds, reasons } = await attempts([({ step }) => step('payout', () => ++paid, wrong)]);
  expect([kinds, paid]).toEqual([['failed'], 0]);
  expect(reasons[0]).toContain('unknown option `onInterupted`');
});

test('every attempt gets the value as JSON', async () => {
  const run = ({ step }: Context) => step('at', () => new Date(0) as unknown);
  const results: unknown[] = [];
  await attempts([
    async (context) => {
      results.push(await run(context));
      fail();
    },
    async (context) => results.push(await run(context)),
  ]);
  expect(results).toEqual(['1970-01-01T00:00:00.000Z', '1970-01-01T00:00:00.000Z']);
});

test('a rejection stores nothing, and the next attempt runs the step again', async () => {
  let runs = 0;
  const run = ({ step }: Context) =>
    step('payout', () => {
      runs += 1;
      if (runs === 1) fail();
      return runs;
    });
  const { kinds, inbox, event } = await attempts([run, run]);
  expect([kinds, runs]).toEqual([['failed', 'handled'], 2]);
  expect(await inbox.steps(event.id)).toMatchObject([{ name: 'payout', attempt: 1, result: '2' }]);
});

test('a handler can catch the rejection of a step, and go on', async () => {
  const { kinds } = await attempts([({ step }) => step('payout', fail).catch(() => undefined)]);
  expect(kinds).toEqual(['handled']);
});

test('a result can have 65,536 characters of JSON', async () => {
  const { kinds } = await attempts([({ step }) => step('payout', () => 'x'.repeat(65_534))]);
  expect(kinds).toEqual(['handled']);
});

test('steps can run at the same time', async () => {
  const { kinds, inbox, event } = await attempts([
    ({ step }) => Promise.all(['a', 'b', 'c'].map((name) => step(name, async () => name))),
  ]);
  expect(kinds).toEqual(['handled']);
  expect((await inbox.steps(event.id)).map(({ result }) => result)).toEqual(['"a"', '"b"', '"c"']);
});

test('a step without a name of 1 to 512 bytes does not run', async () => {
  let ran = 0;
  for (const name of ['', 'a\0b', '\ud83d', 'x'.repeat(513), 7, undefined] as string[]) {
    const { kinds, reasons } = await attempts([({ step }) => step(name, () => (ran += 1))]);
    expect(kinds).toEqual(['failed']);
    expect(reasons[0]).toContain('is not a valid step name');
  }
  expect(ran).toBe(0);
});

test('a name is used once in a run', async () => {
  let runs = 0;
  const { kinds, reasons } = await attempts([
    async ({ step }) => {
      await step('payout', () => ++runs);
      await step('payout', () => ++runs);
    },
  ]);
  expect([kinds, runs]).toEqual([['failed'], 1]);
  expect(reasons[0]).toContain('"payout" is not a valid step name, or was already used');
});

test.each([
  ['is too long', () => 'x'.repeat(65_535)],
  ['is not JSON', () => 1n as unknown],
  ['is a function', () => () => 1],
])('a step whose result %s is dead-lettered, because it has run', async (_, work) => {
  let runs = 0;
  const { kinds, inbox, event } = await attempts([
    ({ step }) =>
      step('payout', () => {
        runs += 1;
        return work();
      }),
  ]);
  expect([kinds, runs]).toEqual([['dead'], 1]);
  expect((await inbox.find(event.id))?.lastError).toContain(
    'Step payout returned a result that is not JSON or is longer than 65536 characters',
  );
  expect(await inbox.requeue(event.id)).toBe(0);
  expect(await inbox.requeue({ ids: [event.id], steps: { payout: 'done' } })).toBe(1);
});

test('a step is stored apart from the transaction of a handler whose process ends in a step', async () => {
  let paid = 0;
  const inbox = durable();
  const event = anEvent();
  const process = setUp(
    async (_, { step }) => {
      await step('payout', () => ++paid);
      await step('mail', () => new Promise(() => undefined));
    },
    { inbox, handlerTimeoutMs: 20, leaseMs: 40 },
  );
  await process.deliver(event);
  await expect.poll(async () => ((await inbox.find(event.id))?.dueAt ?? 0) <= Date.now()).toBe(true);
  const { deliver } = setUp((_, { step }) => step('payout', () => ++paid), { inbox });
  expect((await deliver(event)).kind).toBe('handled');
  expect(paid).toBe(1);
});

describe('onInterrupted: fail', () => {
  const guarded =
    (work: () => unknown) =>
    ({ step }: Context) =>
      step('payout', work, { onInterrupted: 'fail' });

  test('a step that ends is stored, as others', async () => {
    let paid = 0;
    const pay = guarded(() => ++paid);
    const { kinds } = await attempts([(context) => pay(context).then(fail), pay]);
    expect([kinds, paid]).toEqual([['failed', 'handled'], 1]);
  });

  test('a step that rejects has an unknown effect: the event is dead, and runs again once a person has stated it', async () => {
    let runs = 0;
    const pay = guarded(() => {
      runs += 1;
      fail();
    });
    const inbox = durable();
    const { kinds, reasons, event } = await attempts([pay], inbox);
    expect(kinds).toEqual(['dead']);
    expect(reasons[0]).toBe('Error: no');
    expect((await inbox.find(event.id))?.lastError).toMatch(
      /^ERR_HANDLER_PERMANENT: Step payout began but recorded no result, so it will not run again/,
    );
    expect(await inbox.requeue(event.id)).toBe(0);
    expect(await inbox.requeue({ ids: [event.id], steps: { payout: 'done' } })).toBe(1);
    const results: unknown[] = [];
    const { deliver } = setUp(async (_, context) => results.push(await pay(context)), { inbox });
    expect((await deliver(event)).kind).toBe('handled');
    expect([runs, results]).toEqual([1, [undefined]]);
  });

  test('a step that was interrupted does not run again, and its event is dead', async () => {
    const inbox = durable();
    const event = anEvent();
    await inbox.saveStep?.(await leaseOf(inbox, event, { leaseMs: 0 }), 'payout', null);
    let runs = 0;
    const { deliver } = setUp((_, context) => guarded(() => ++runs)(context), { inbox });
    expect((await deliver(event)).kind).toBe('dead');
    await inbox.requeue({ ids: [event.id], steps: { payout: 'again' } });
    expect([(await deliver(event)).kind, runs]).toEqual(['handled', 1]);
  });

  test('RetryLater says that nothing happened: the step runs again', async () => {
    let runs = 0;
    const pay = guarded(() => {
      runs += 1;
      if (runs === 1) throw new RetryLater({ afterMs: 1, reason: 'the bank is closed' });
    });
    const { kinds } = await attempts([pay, pay]);
    expect([kinds, runs]).toEqual([['queued', 'handled'], 2]);
  });

  test('the inbox that cannot store the beginning of a step keeps it from running', async () => {
    let runs = 0;
    const inbox = durable();
    const down: typeof inbox = { ...inbox, saveStep: () => Promise.reject(new Error('down')) };
    const { kinds } = await attempts([guarded(() => ++runs)], down);
    expect([kinds, runs]).toEqual([['failed'], 0]);
  });
});

test('a handler that lost its lease runs no step', async () => {
  const inbox = durable();
  const event = anEvent();
  let runs = 0;
  const { deliver } = setUp(
    async (_, { step }) => {
      await inbox.takeDue({ limit: 1, visibilityTimeoutMs: 0, types: [] });
      await expect
        .poll(async () => (await inbox.claim(event, { leaseMs: 60_000, origin: 'push' })).state)
        .toBe('claimed');
      await step('payout', () => ++runs);
    },
    { inbox, leaseMs: 20, handlerTimeoutMs: 19 },
  );
  await deliver(event);
  await expect.poll(async () => (await inbox.find(event.id))?.attempts).toBe(2);
  expect(runs).toBe(0);
});

test('an inbox without steps says what to do', async () => {
  const { readSteps: _, saveStep: __, ...plain } = durable();
  const { kinds, reasons } = await attempts([({ step }) => step('payout', () => 1)], plain);
  expect(kinds).toEqual(['failed']);
  expect(reasons[0]).toContain('the inbox does not store steps');
});

test('transactional SQLite has no steps, by type and when it runs', async () => {
  const inbox = sqliteInbox(new Database(':memory:'), { transactional: true });
  expect(inbox.saveStep).toBeUndefined();
});

describe('idempotencyKey', () => {
  const keysOf = async (event = anEvent(), ...names: readonly string[]) => {
    const keys: string[] = [];
    const { deliver } = setUp((_, { idempotencyKey, attempt }) => {
      keys.push(...(names.length === 0 ? [idempotencyKey()] : names.map((name) => idempotencyKey(name))));
      if (attempt === 1) fail();
    });
    await deliver(event);
    await deliver(event);
    return keys;
  };

  test('it is the same in each attempt, and in every process', async () => {
    const event = anEvent({ id: 'evt_01' });
    const keys = await keysOf(event);
    expect(keys).toEqual([keys[0], keys[0]]);
    expect(await keysOf(event)).toEqual(keys);
    expect(keys[0]).toBe('537230cb-c44f-478d-869c-4665706dab3c');
  });

  test('it differs for each event and name', async () => {
    const keys = (
      await Promise.all(
        ['evt_1', 'evt_2', 'evt', 'evt_1a'].map((id) => keysOf(anEvent({ id }), 'a', 'b', '1a')),
      )
    ).flat();
    expect(new Set(keys).size).toBe(12);
  });

  test('a name that is missing or no text fails the attempt, because all of them would share one key', async () => {
    for (const name of [{ order: 1 }, undefined, null, 7, '', 'a\0b', '\ud83d'] as unknown[]) {
      const { deliver, codes } = setUp((_, { idempotencyKey }) => void idempotencyKey(name as string));
      await deliver(anEvent());
      expect(codes()).toEqual(['ERR_HANDLER_FAILED']);
    }
  });

  test('it is a UUID, which payment APIs accept, for every id', async () => {
    for (const id of ['evt', 'ü'.repeat(256), 'x'.repeat(512)]) {
      const [key] = await keysOf(anEvent({ id }), 'payout');
      expect(key).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/);
    }
  });
});

test('a PermanentError of a step is that of the handler', async () => {
  const { kinds } = await attempts([
    ({ step }) =>
      step('payout', () => {
        throw new PermanentError('the account is closed');
      }),
  ]);
  expect(kinds).toEqual(['dead']);
});
