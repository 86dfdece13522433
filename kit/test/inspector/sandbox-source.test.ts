import { type EventFilter, fromSandbox, type StreamEntry } from 'stablehooks-kit/inspector';
import { createSandbox, type SandboxOptions } from 'stablehooks-kit/sandbox';
import { expect, onTestFinished, test } from 'vitest';
import { reportService } from '../../src/inspector/sandbox-source.js';

function inspect(options: SandboxOptions = {}) {
  const sandbox = createSandbox({ seed: 1, clock: 'manual', maxAttempts: 1, ...options });
  onTestFinished(() => sandbox.close());
  const source = fromSandbox(sandbox);
  const { deliveries } = source;
  if (deliveries === undefined) throw new Error('A view is missing.');
  return { sandbox, source, deliveries };
}

/** Answers by the type of the event. */
const byType = async (request: Request) => {
  const { type, payload } = JSON.parse(await request.text());
  const status = Number(payload.status ?? 200);
  const body = type === 'redeem.failed' ? '{"outcome":"dead"}' : `{"said":"${type}"}`;
  return new Response(body, { status });
};

async function withOneOfEachKind() {
  const inspected = inspect({ endpoints: [{ fetch: byType }] });
  const { sandbox } = inspected;
  for (const [type, payload] of [
    ['accept.confirmed', {}],
    ['redeem.failed', {}],
    ['accept.confirmed', { status: 404 }],
    ['transfer.failed', { status: 429 }],
    ['transfer.settled', { status: 503 }],
  ] as const) {
    sandbox.emit(type, payload);
    await sandbox.settled();
  }
  sandbox.faults.set({ drop: 1 });
  sandbox.emit('wallet.frozen', { note: 'Grüße' });
  await sandbox.settled();
  return inspected;
}

test('events are listed the newest first, with how they ended', async () => {
  const { deliveries } = await withOneOfEachKind();
  const { rows, next } = await deliveries.events({ limit: 10 });
  expect(next).toBeNull();
  expect(rows.map(({ type, state, verdict }) => [type, state, verdict])).toEqual([
    ['wallet.frozen', 'unanswered', 'Never delivered, 1 attempt: lost (fault drop)'],
    ['transfer.settled', 'failed', 'Never delivered, 1 attempt: 503'],
    ['transfer.failed', 'failed', 'Never delivered, 1 attempt: 429'],
    ['accept.confirmed', 'refused', 'Never delivered, 1 attempt: 404'],
    ['redeem.failed', 'without-effect', 'Accepted without effect: 200 dead'],
    ['accept.confirmed', 'accepted', 'Accepted'],
  ]);
});

test('a reply is judged by all of it, although only its start is kept, and one that is too long shows no effect', async () => {
  const replies = [
    JSON.stringify({ padding: 'x'.repeat(2_000), code: 'ERR_HANDLER_FAILED' }),
    JSON.stringify({ padding: 'x'.repeat(2_000) }),
    JSON.stringify({ padding: 'x'.repeat(65_536) }),
  ];
  const { sandbox, deliveries } = inspect({ endpoints: [{ fetch: () => new Response(replies.shift()) }] });
  for (let event = 0; event < 3; event += 1) {
    sandbox.emit('accept.confirmed');
    await sandbox.settled();
  }
  const { rows } = await deliveries.events({ limit: 10 });
  expect(rows.map(({ verdict }) => verdict).toReversed()).toEqual([
    'Accepted without effect: 200 ERR_HANDLER_FAILED',
    'Accepted',
    'Accepted without effect: 200 the response is longer than 64 KiB',
  ]);
  const [attempt] = sandbox.attempts({ limit: 1 });
  expect(attempt && (await sandbox.explain(attempt)).what).toContain('returned a 2xx with more than 64 KiB');
});

test.each<[EventFilter, number]>([
  [{ text: 'grüSSe' }, 0],
  [{ text: 'GRÜßE' }, 1],
  [{ text: '"outcome":"DEAD"' }, 1],
  [{ text: '.*' }, 0],
  [{ id: 'evt_none' }, 0],
])('the filter %o selects %d of the events', async (filter, count) => {
  const { deliveries } = await withOneOfEachKind();
  expect((await deliveries.events({ limit: 10, ...filter })).rows).toHaveLength(count);
});

test('the detail has the bytes, the headers and the verdict of the attempt, and no secret', async () => {
  const { sandbox, deliveries } = inspect({
    secret: 'whsec_of_the_page',
    endpoints: [{ fetch: () => new Response('€'.repeat(400)), signatureHeader: 'x-other' }],
  });
  const event = sandbox.emit('accept.confirmed');
  await sandbox.settled();
  const [row] = deliveries.event(event.id)?.history ?? [];
  const bytes = Buffer.from([0x80, 0x00]);
  const resent = await deliveries.resend(row?.id ?? '', { body: bytes });
  const details = await Promise.all([deliveries.find(row?.id ?? ''), deliveries.find(resent.id)]);
  expect(JSON.parse(Buffer.from(details[0]?.request.body ?? '', 'base64').toString())).toMatchObject({
    id: event.id,
  });
  expect(details[0]).toMatchObject({
    verdict: { what: 'The signature is correct. The endpoint accepted the event (200).', fix: null },
    response: { cut: true, body: Buffer.from('€'.repeat(400)).subarray(0, 1_024).toString('base64') },
  });
  expect(details[1]?.request.body).toBe(bytes.toString('base64'));
  expect(JSON.stringify(details)).not.toContain('whsec_of_the_page');
});

test('the stream says when events and the sandbox have changed', async () => {
  const { sandbox, source } = inspect({ endpoints: [{ fetch: byType }] });
  const entries: StreamEntry[] = [];
  const stop = source.subscribe(
    (entry) => entries.push(entry),
    () => true,
  );
  sandbox.emit('accept.confirmed');
  await sandbox.settled();
  expect(entries).toEqual([{ kind: 'changed', view: 'events' }]);
  entries.length = 0;
  sandbox.faults.set({ drop: 0.5 });
  sandbox.faults.clear();
  await sandbox.clock.advance(1_000);
  sandbox.reset();
  expect(entries).toEqual([
    ...Array(3).fill({ kind: 'changed', view: 'sandbox' }),
    { kind: 'changed', view: 'events' },
    { kind: 'changed', view: 'sandbox' },
  ]);
  stop();
  sandbox.faults.clear();
  expect(entries).toHaveLength(5);
});

test('the service has its movements, faults and clock, and an example of each type', () => {
  const { sandbox } = inspect();
  sandbox.accept();
  const report = reportService(sandbox);
  expect(report).toMatchObject({
    movements: [{ kind: 'accept' }],
    faults: { drop: 0 },
    clock: { mode: 'manual', now: '2026-01-01T00:00:00.000Z' },
  });
  expect(Object.keys(report.examples)).toContain('transfer.settled');
});
