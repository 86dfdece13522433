import { type AttemptFilter, fromSandbox, type StreamEntry } from 'stablehooks-kit/inspector';
import { createSandbox, type SandboxOptions } from 'stablehooks-kit/sandbox';
import { expect, onTestFinished, test } from 'vitest';
import { serve } from '../http-server.js';

function inspect(options: SandboxOptions = {}) {
  const sandbox = createSandbox({ seed: 1, clock: 'manual', maxAttempts: 1, ...options });
  onTestFinished(() => sandbox.close());
  const source = fromSandbox(sandbox);
  const { deliveries, service } = source;
  if (deliveries === undefined || service === undefined) throw new Error('A view is missing.');
  return { sandbox, source, deliveries, service };
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

test('attempts are listed the newest first, with what their answer says', async () => {
  const { deliveries } = await withOneOfEachKind();
  const { rows, next } = await deliveries.list({ limit: 10 });
  expect(next).toBeNull();
  expect(rows.map(({ type, kind, status, outcome }) => [type, kind, status, outcome])).toEqual([
    ['wallet.frozen', 'unanswered', null, 'lost (fault drop)'],
    ['transfer.settled', 'failed', 503, null],
    ['transfer.failed', 'failed', 429, null],
    ['accept.confirmed', 'refused', 404, null],
    ['redeem.failed', 'without-effect', 200, 'dead'],
    ['accept.confirmed', 'accepted', 200, null],
  ]);
});

test.each<[AttemptFilter, number]>([
  [{ type: 'accept.confirmed' }, 2],
  [{ kind: 'failed' }, 2],
  [{ kind: 'failed', type: 'transfer.failed' }, 1],
  [{ text: 'grüSSe' }, 0],
  [{ text: 'GRÜßE' }, 1],
  [{ text: '"outcome":"DEAD"' }, 1],
  [{ text: '.*' }, 0],
  [{ id: 'EVT_' }, 6],
  [{ id: 'del_' }, 6],
  [{ id: 'evt_none' }, 0],
])('the filter %o selects %d of the attempts, in the list and in the charts', async (filter, count) => {
  const { deliveries } = await withOneOfEachKind();
  expect((await deliveries.list({ limit: 10, ...filter })).rows).toHaveLength(count);
  const stats = await deliveries.stats(filter);
  expect(stats.total).toBe(count);
  const sum = (counts: readonly number[]) => counts.reduce((all, one) => all + one, 0);
  expect(sum(Object.values(stats.kinds).map(sum))).toBe(count);
  expect(sum(stats.latency.counts)).toBe(count);
  expect(stats.types).toEqual([
    'accept.confirmed',
    'redeem.failed',
    'transfer.failed',
    'transfer.settled',
    'wallet.frozen',
  ]);
});

test('pages follow each other without a gap while new attempts are made, also under a filter', async () => {
  const { sandbox, deliveries } = inspect({ endpoints: [{ fetch: byType }] });
  for (let n = 0; n < 20; n++) sandbox.emit(n % 2 === 0 ? 'accept.confirmed' : 'transfer.settled');
  await sandbox.settled();
  const all = (await deliveries.list({ limit: 100, type: 'accept.confirmed' })).rows;
  const found: string[] = [];
  for (let before: string | undefined, more = true; more; ) {
    const page = await deliveries.list({ limit: 3, before, type: 'accept.confirmed' });
    found.push(...page.rows.map(({ id }) => id));
    before = page.next ?? undefined;
    more = page.next !== null;
    sandbox.emit('accept.confirmed');
    await sandbox.settled();
  }
  expect(found).toEqual(all.map(({ id }) => id));
  expect(await deliveries.list({ limit: 3, before: 'no longer kept' })).toEqual({ rows: [], next: null });
});

test('every attempt has an id of its own, also a retry and a duplicate, and is found by it', async () => {
  const { sandbox, deliveries } = inspect({
    endpoints: [{ fetch: () => new Response(null, { status: 500 }) }],
    faults: { duplicate: 1 },
    maxAttempts: 3,
  });
  sandbox.emit('accept.confirmed');
  await sandbox.settled();
  const { rows } = await deliveries.list({ limit: 10 });
  expect(new Set(rows.map(({ id }) => id)).size).toBe(6);
  for (const row of rows) expect(await deliveries.find(row.id)).toMatchObject(row);
  expect(await deliveries.find('del_0.1')).toBeUndefined();
  sandbox.faults.clear();
  const again = await deliveries.resend(rows[0]?.id ?? '', {});
  expect((await deliveries.list({ limit: 1 })).rows).toMatchObject([{ id: again, attempt: 1, faults: [] }]);
});

test.each(['corruptSignature', 'reserialise'] as const)(
  'a delivery that the fault %s made wrong is wrongly accepted with 2xx, and refused with 401',
  async (fault) => {
    const { sandbox, deliveries } = inspect({
      endpoints: [{ fetch: () => new Response() }],
      faults: { [fault]: 1 },
    });
    sandbox.endpoints.add({
      url: 'http://refuse.invalid/',
      fetch: () => Response.json({ outcome: 'ignored' }, { status: 401 }),
    });
    sandbox.emit('accept.confirmed');
    await sandbox.settled();
    const { rows } = await deliveries.list({ limit: 10 });
    expect(rows.map(({ kind, status }) => `${kind} ${status}`).toSorted()).toEqual([
      'refused 401',
      'wrongly-accepted 200',
    ]);
    const { kinds } = await deliveries.stats({ kind: 'wrongly-accepted' });
    expect(kinds).toMatchObject({ accepted: [0], 'wrongly-accepted': [1], refused: [0] });
  },
);

test('a resend sends the bytes of its attempt to the URL of its attempt', async () => {
  await using other = await serve((request, response) => request.resume().on('end', () => response.end()));
  const { sandbox, deliveries } = inspect({ endpoints: [{ fetch: byType }] });
  const event = sandbox.emit('accept.confirmed');
  await sandbox.settled();
  const [first] = (await deliveries.list({ limit: 1 })).rows;
  const url = `${other.url}/elsewhere`;
  const bytes = Buffer.from(`${JSON.stringify({ id: event.id, type: 'redeem.failed' })}\n\ufeff`);
  const edited = await deliveries.resend(first?.id ?? '', { body: bytes });
  const moved = await deliveries.resend(edited, { url });
  const again = await deliveries.resend(moved, {});
  const details = await Promise.all([edited, moved, again].map((id) => deliveries.find(id)));
  const sent = details.map((detail) => [detail?.request.url, detail?.request.body]);
  expect(sent).toEqual([
    [first?.endpoint, bytes.toString('base64')],
    [url, bytes.toString('base64')],
    [url, bytes.toString('base64')],
  ]);
  // None of them is a delivery of the event to its endpoint.
  expect(sandbox.deliveries()).toHaveLength(1);
  await deliveries.resend(first?.id ?? '', {});
  expect(sandbox.deliveries()).toMatchObject([{ state: 'delivered' }, { state: 'delivered' }]);
});

test('a resend of a delivery that a fault made wrong sends the event as it is', async () => {
  let status = 401;
  const { sandbox, deliveries } = inspect({
    endpoints: [{ fetch: () => new Response(null, { status }) }],
    faults: { reserialise: 1 },
  });
  sandbox.emit('accept.confirmed');
  await sandbox.settled();
  status = 200;
  const [row] = (await deliveries.list({ limit: 1 })).rows;
  await deliveries.resend(row?.id ?? '', {});
  expect(sandbox.events()).toMatchObject([{ delivered: true }]);
});

test('a resend of an attempt that is no longer kept is refused', async () => {
  const { deliveries } = inspect();
  await expect(deliveries.resend('del_0.1', {})).rejects.toMatchObject({ code: 'ERR_SANDBOX_NOT_FOUND' });
});

test('the detail has the bytes, the headers and the verdict of the attempt, and no secret', async () => {
  const { sandbox, deliveries } = inspect({
    secret: 'whsec_of_the_page',
    endpoints: [{ fetch: () => new Response('€'.repeat(400)), signatureHeader: 'x-other' }],
  });
  const event = sandbox.emit('accept.confirmed');
  await sandbox.settled();
  const [row] = (await deliveries.list({ limit: 1 })).rows;
  const bytes = Buffer.from([0x80, 0x00]);
  const resent = await deliveries.resend(row?.id ?? '', { body: bytes });
  const details = await Promise.all([deliveries.find(row?.id ?? ''), deliveries.find(resent)]);
  expect(JSON.parse(Buffer.from(details[0]?.request.body ?? '', 'base64').toString())).toMatchObject({
    id: event.id,
  });
  expect(details[0]).toMatchObject({
    signatureHeader: 'x-other',
    verdict: { what: 'The signature is right. The endpoint accepted it (200).', fix: null },
    response: { cut: true, body: Buffer.from('€'.repeat(400)).subarray(0, 1_024).toString('base64') },
  });
  expect(details[1]?.request.body).toBe(bytes.toString('base64'));
  expect(JSON.stringify(details)).not.toContain('whsec_of_the_page');
});

test('the stream has a row for each attempt, and says when the view of the service has changed', async () => {
  const { sandbox, source, service } = inspect({ endpoints: [{ fetch: byType }] });
  const entries: StreamEntry[] = [];
  const stop = source.subscribe(
    (entry) => entries.push(entry),
    () => true,
  );
  const id = service.fire({ type: 'accept.confirmed' });
  await sandbox.settled();
  expect(entries).toMatchObject([{ kind: 'attempt', row: { eventId: id } }]);
  entries.length = 0;
  service.setFaults({ drop: 0.5 });
  service.clearFaults();
  await service.advanceClock(1_000);
  sandbox.reset();
  expect(entries).toEqual([
    ...Array(3).fill({ kind: 'changed', view: 'service' }),
    { kind: 'changed', view: 'deliveries' },
    { kind: 'changed', view: 'service' },
  ]);
  stop();
  service.clearFaults();
  expect(entries).toHaveLength(5);
});

test('the service has its wallets, faults and clock, and an example of each type', () => {
  const { sandbox, service } = inspect();
  sandbox.accept();
  const report = service.report();
  expect(report).toMatchObject({
    movements: [{ kind: 'accept' }],
    faults: { drop: 0 },
    clock: { mode: 'manual', now: '2026-01-01T00:00:00.000Z' },
  });
  expect(Object.keys(report.examples)).toContain('transfer.settled');
});
