import { memoryInbox } from 'stablehooks';
import { writePollState } from 'stablehooks/catch-up';
import { exampleEvent } from 'stablehooks/testing';
import { createInspector, fromInbox, fromSandbox, type InspectorSource } from 'stablehooks-kit/inspector';
import { createSandbox, type SandboxOptions } from 'stablehooks-kit/sandbox';
import { expect, onTestFinished, test } from 'vitest';
import type { OverviewReport } from '../../src/inspector/api.js';
import { complete, fail } from '../inbox-states.js';

function inspect(source: InspectorSource) {
  const inspector = createInspector({ source, authorize: () => true });
  onTestFinished(() => inspector.close());
  return async (): Promise<OverviewReport> =>
    (await inspector.fetch(new Request('http://app.example/api/overview?fresh=1'))).json();
}

test('the verdict names the checks that are unhealthy, and those come first', async () => {
  const inbox = memoryInbox();
  const overview = inspect(fromInbox(inbox, { name: 'app' }));
  expect(await overview()).toMatchObject({
    tone: 'neutral',
    verdict: expect.stringMatching(/^Nothing to judge/),
  });
  for (const id of ['evt_1', 'evt_2']) {
    await fail(inbox, exampleEvent('transfer.settled', { id }));
  }
  await writePollState(inbox, { since: 1, watermark: 2, limit: 50, oldest: null, gaps: [] });
  const { tone, verdict, checks, flow } = await overview();
  expect([tone, verdict]).toEqual(['bad', 'Needs you: dead (2), coverage.']);
  expect(checks.slice(0, 2).map(({ name }) => name)).toEqual(['dead', 'coverage']);
  expect(checks.filter((check) => check.tone === 'bad')).toHaveLength(2);
  expect(flow.map(({ name, count }) => [name, count])).toEqual([
    ['Received', 2],
    ['Done', 0],
    ['Failed', 2],
  ]);
});

test('all is well until the last proof once an event was pushed, and what was not shown is not marked as good', async () => {
  const inbox = memoryInbox();
  const overview = inspect(fromInbox(inbox, { name: 'app' }));
  const watermark = Date.now();
  await complete(inbox, exampleEvent('transfer.settled', { id: 'evt_2' }), { origin: 'pull' });
  await writePollState(inbox, { since: 1, watermark, limit: 50, oldest: null, gaps: [] });
  expect(await overview()).toMatchObject({
    tone: 'neutral',
    verdict: 'Nothing is overdue. Not verified yet: refused.',
    checks: expect.arrayContaining([expect.objectContaining({ name: 'coverage', tone: 'good' })]),
  });
  await complete(inbox, exampleEvent('transfer.settled', { id: 'evt_3' }));
  expect(await overview()).toMatchObject({
    tone: 'good',
    verdict: expect.stringContaining(`nothing is missing up to ${new Date(watermark).toISOString()}.`),
  });
});

test('without an inbox, the verdict is about deliveries, and injected faults are named', async () => {
  const statuses = [200, 500];
  const fetch = async () => new Response(null, { status: statuses.shift() ?? 200 });
  const sandbox = createSandbox({ clock: 'manual', maxAttempts: 1, endpoints: [{ fetch }] });
  onTestFinished(() => sandbox.close());
  const overview = inspect(fromSandbox(sandbox));
  expect(await overview()).toMatchObject({ tone: 'neutral', verdict: expect.stringContaining('No event') });
  sandbox.emit('transfer.settled');
  await sandbox.settled();
  expect(await overview()).toMatchObject({ tone: 'good' });
  sandbox.emit('transfer.settled');
  await sandbox.settled();
  sandbox.faults.set({ drop: 0.5 });
  const { tone, verdict, checks } = await overview();
  expect([tone, verdict]).toEqual(['bad', 'Needs you: 1 of 2 events not accepted by the endpoint.']);
  expect(checks.slice(0, 2)).toMatchObject([
    { name: 'failed', tone: 'bad', count: 1 },
    { name: 'faults', tone: 'doubtful', message: expect.stringContaining('drop') },
  ]);
});

test('an event accepted with a wrong signature is not called one that was not accepted', async () => {
  const fetch = async () => Response.json({ outcome: 'handled' });
  const sandbox = createSandbox({ clock: 'manual', maxAttempts: 1, endpoints: [{ fetch }] });
  onTestFinished(() => sandbox.close());
  sandbox.faults.set({ corruptSignature: { next: 1 } });
  sandbox.emit('transfer.settled');
  await sandbox.settled();
  const { tone, verdict } = await inspect(fromSandbox(sandbox))();
  expect([tone, verdict]).toEqual(['bad', 'Needs you: 1 event accepted with an invalid signature.']);
});

test('the faults that can still occur are named, without used ones and without durations of other faults', async () => {
  const sandbox = createSandbox({ clock: 'manual' });
  onTestFinished(() => sandbox.close());
  const overview = inspect(fromSandbox(sandbox));
  const read = async () => (await overview()).checks.find(({ name }) => name === 'faults');
  sandbox.faults.set({ drop: { next: 0 }, delayMs: 5_000 });
  expect(await read()).toMatchObject({ tone: 'good', count: 0 });
  sandbox.faults.set({ dateSkewMs: -60_000, tokenExpiryMs: 1_000, listLagMs: 1_000, reset: { next: 1 } });
  const message = expect.stringContaining('reset, dateSkewMs, tokenExpiryMs, listLagMs.');
  expect(await read()).toMatchObject({ tone: 'doubtful', count: 4, message });
});

/** A sandbox whose endpoint answers with these statuses, then with 200. */
function startSandbox(statuses: number[], options: SandboxOptions = {}) {
  const fetch = async () => new Response(null, { status: statuses.shift() ?? 200 });
  const sandbox = createSandbox({ clock: 'manual', maxAttempts: 1, endpoints: [{ fetch }], ...options });
  onTestFinished(() => sandbox.close());
  return { sandbox, overview: inspect(fromSandbox(sandbox)) };
}

test('failures stay visible when the attempts at later events fill the memory', async () => {
  const { sandbox, overview } = startSandbox(Array<number>(3).fill(500), { maxAttemptsKept: 10 });
  for (let index = 0; index < 20; index += 1) sandbox.emit('transfer.settled');
  await sandbox.settled();
  const { verdict, checks } = await overview();
  expect(verdict).toBe('Needs you: 3 of 20 events not accepted by the endpoint.');
  expect(checks[0]).toMatchObject({ name: 'failed', tone: 'bad', count: 3 });
});

test('failures whose attempts are dropped are counted', async () => {
  const { sandbox, overview } = startSandbox(Array<number>(30).fill(500), { maxAttemptsKept: 5 });
  for (let index = 0; index < 130; index += 1) sandbox.emit('transfer.settled');
  await sandbox.settled();
  const { tone, verdict, checks } = await overview();
  expect([tone, verdict]).toEqual(['bad', 'Needs you: 30 of 130 events not accepted by the endpoint.']);
  expect(checks[0]).toMatchObject({ name: 'dropped', tone: 'bad', count: 28 });
});

test('events whose attempts are dropped are not counted as accepted', async () => {
  const { sandbox, overview } = startSandbox([], { maxAttemptsKept: 5 });
  for (let index = 0; index < 20; index += 1) sandbox.emit('transfer.settled');
  await sandbox.settled();
  expect(await overview()).toMatchObject({
    tone: 'good',
    verdict:
      'All is well: the endpoint accepted all 5 events with attempts that are kept, and returned a 2xx for 15 older ones.',
  });
});

test('before the first delivery no check is good, and an event that waits for its first attempt is named', async () => {
  const { sandbox, overview } = startSandbox([], { faults: { delay: 1, delayMs: 60_000 } });
  const tones = async () =>
    (await overview()).checks.flatMap(({ name, tone }) => (name === 'faults' ? [] : tone));
  expect(new Set(await tones())).toEqual(new Set(['neutral']));
  sandbox.emit('transfer.settled');
  expect(await overview()).toMatchObject({
    tone: 'neutral',
    verdict: 'No event has been delivered yet: 1 is not attempted yet.',
  });
});
