/** The steps of handlers: what is stored, and who can store it. */
import assert from 'node:assert/strict';
import type { InboxStep, Lease } from 'stablehooks';
import { type ContractCase, someEvent } from '../contract.js';
import { HOUR_MS, type InboxUnderTest, ODD_NAMES, simultaneously, type TestedInbox, test } from './given.js';

type Result = string | null | undefined;

/** The steps of a lease, as another connection has them; `null` if the lease is lost. */
async function read(inbox: TestedInbox, lease: Lease): Promise<readonly InboxStep[] | null> {
  const { port } = inbox;
  assert.ok(port.readSteps, 'The inbox has no `readSteps`.');
  return port.readSteps(lease);
}

async function save(inbox: TestedInbox, lease: Lease, name: string, result: Result): Promise<boolean> {
  const { port } = inbox;
  assert.ok(port.saveStep, 'The inbox has no `saveStep`.');
  return port.saveStep(lease, name, result);
}

const resultsOf = (steps: readonly InboxStep[] | null) =>
  steps?.map(({ name, result }) => `${name} ${result}`).join(', ') ?? 'lost';

/** A lease of an event, after an attempt that stored these steps and failed. */
async function leaseAfter(inbox: TestedInbox, stored: Readonly<Record<string, Result>>): Promise<Lease> {
  const event = someEvent();
  const first = await inbox.claimed(event);
  for (const [name, result] of Object.entries(stored))
    assert.equal(await save(inbox, first, name, result), true);
  assert.equal(await inbox.port.fail(first, { retryAfterMs: 0, error: 'no' }), true);
  return inbox.claimed(event);
}

const kill = (inbox: TestedInbox, lease: Lease) =>
  inbox.port.fail(lease, { retryAfterMs: null, error: 'no' });

const cases = [
  test('a later attempt reads the steps of earlier ones, in the order in which they were stored', async (inbox) => {
    const lease = await leaseAfter(inbox, { payout: '{"id":1}', mail: '', begun: null });
    assert.equal(await save(inbox, lease, 'again', '2'), true);
    const steps = (await read(inbox, lease)) ?? [];
    assert.equal(resultsOf(steps), 'payout {"id":1}, mail , begun null, again 2');
    assert.deepEqual(
      steps.map(({ attempt }) => attempt),
      [1, 1, 1, 2],
    );
    for (const { at } of steps)
      assert.ok(Math.abs(at - Date.now()) < HOUR_MS, '`at` is not a time in epoch ms.');
    assert.deepEqual(await inbox.port.steps(lease.id), steps);
  }),
  test('an event has none of the steps of another event', async (inbox) => {
    await leaseAfter(inbox, { payout: '1' });
    const other = await inbox.claimed(someEvent());
    assert.equal(resultsOf(await read(inbox, other)), '');
    assert.deepEqual(await inbox.port.steps('evt_unknown'), []);
  }),
  test('a lost lease reads and stores nothing', async (inbox) => {
    const event = someEvent();
    const lost = await inbox.claimed(event, { leaseMs: 0 });
    assert.equal(await save(inbox, lost, 'begun', null), true);
    const lease = await inbox.claimed(event);
    for (const result of ['1', null, undefined])
      assert.equal(await save(inbox, lost, 'begun', result), false);
    assert.equal(await save(inbox, lost, 'other', '1'), false);
    assert.equal(await read(inbox, lost), null);
    await inbox.port.complete(lease);
    assert.equal(await save(inbox, lease, 'late', '1'), false);
    assert.equal(await read(inbox, lease), null);
    assert.equal(resultsOf(await inbox.port.steps(event.id)), 'begun null');
  }),
  test('a result is kept: it is neither replaced nor forgotten', async (inbox) => {
    const lease = await leaseAfter(inbox, { payout: '1' });
    for (const result of ['2', '', null, undefined]) {
      assert.equal(await save(inbox, lease, 'payout', result), false);
    }
    assert.equal(resultsOf(await read(inbox, lease)), 'payout 1');
  }),
  test('a step that has begun can end once, or be forgotten, and cannot begin again', async (inbox) => {
    const lease = await leaseAfter(inbox, { ends: null, forgotten: null });
    assert.equal(await save(inbox, lease, 'ends', null), false);
    assert.equal(await save(inbox, lease, 'ends', '1'), true);
    assert.equal(await save(inbox, lease, 'forgotten', undefined), true);
    assert.equal(await save(inbox, lease, 'forgotten', undefined), false);
    assert.equal(resultsOf(await read(inbox, lease)), 'ends 1');
  }),
  test('of simultaneous beginnings of a step exactly one is stored', async (inbox) => {
    const lease = await inbox.claimed(someEvent());
    const saved = await simultaneously(8, () => save(inbox, lease, 'payout', null));
    assert.equal(saved.filter(Boolean).length, 1);
  }),
  test('names and results of every kind come back as they were stored', async (inbox) => {
    const values: readonly unknown[] = [
      null,
      '',
      0,
      '\0',
      '\ud800',
      '🙂',
      { 'a"b': ['\\'] },
      'x'.repeat(65_000),
    ];
    const results = values.map((value) => JSON.stringify(value));
    const names = [...ODD_NAMES, 'n'.repeat(512)];
    const stored = names.map((name, index) => [name, results[index % results.length] ?? ''] as const);
    const lease = await leaseAfter(inbox, Object.fromEntries(stored));
    const steps = (await read(inbox, lease)) ?? [];
    assert.deepEqual(
      Object.fromEntries(steps.map(({ name, result }) => [name, result])),
      Object.fromEntries(stored),
    );
  }),
  test('a completion and a requeue keep steps; pruning removes them', async (inbox) => {
    const lease = await leaseAfter(inbox, { payout: '1' });
    await kill(inbox, lease);
    assert.equal(await inbox.port.requeue(lease.id), 1);
    const [event] = await inbox.takeDue();
    assert.ok(event, 'The requeued event is not due.');
    const next = await inbox.claimed(event);
    assert.equal(resultsOf(await read(inbox, next)), 'payout 1');
    await inbox.port.complete(next);
    assert.equal(resultsOf(await inbox.port.steps(lease.id)), 'payout 1');
    assert.equal(await inbox.port.prune({ olderThanMs: HOUR_MS }), 0);
    assert.equal(await inbox.port.prune({ olderThanMs: 0 }), 1);
    assert.deepEqual(await inbox.port.steps(lease.id), []);
  }),
  test('an event with a step of unknown effect is not requeued, unless it is stated what happened', async (inbox) => {
    const lease = await leaseAfter(inbox, { paid: null, mailed: null, known: '1' });
    const requeue = (steps?: Readonly<Record<string, 'done' | 'again'>>) =>
      inbox.port.requeue({ ids: [lease.id], steps });
    await kill(inbox, lease);
    assert.equal(await inbox.port.requeue(lease.id), 0);
    assert.equal(await inbox.port.requeue({ state: 'dead', limit: 10 }), 0);
    assert.equal(await requeue({ known: 'again', other: 'done' }), 0);
    await assert.rejects(inbox.port.requeue({ ids: [lease.id, 'evt'], steps: { paid: 'done' } }), {
      code: 'ERR_CONFIG_INVALID',
    });
    assert.equal(await requeue({ paid: 'done' }), 0);
    assert.equal(
      resultsOf(await inbox.port.steps(lease.id)).replace('paid ,', 'paid,'),
      'paid, mailed null, known 1',
    );
    assert.equal(await requeue({ mailed: 'again' }), 1);
    assert.equal(resultsOf(await inbox.port.steps(lease.id)), 'paid , known 1');
  }),
  test('what is stated about a step does not change an event that is leased', async (inbox) => {
    const lease = await leaseAfter(inbox, { paid: null });
    assert.equal(await inbox.port.requeue({ ids: [lease.id], steps: { paid: 'again' } }), 0);
    assert.equal(resultsOf(await read(inbox, lease)), 'paid null');
  }),
];

/** None for an inbox without steps, as one with transactions of synchronous handlers. */
export const stepCases: readonly ContractCase<InboxUnderTest>[] = cases.map(({ name, run }) => ({
  name,
  run: async (subject) => (subject.inbox.saveStep === undefined ? undefined : run(subject)),
}));
