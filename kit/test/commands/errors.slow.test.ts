import { exampleEvent } from 'stablehooks/testing';
import { createInspector, fromInbox } from 'stablehooks-kit/inspector';
import { expect, onTestFinished, test } from 'vitest';
import { makeFolder, run } from '../command.js';
import { fail } from '../inbox-states.js';
import { openSqlite } from '../sqlite-file.js';

test('inbox errors groups errors without their ids, times and amounts, and its command requeues one group', async () => {
  await using folder = await makeFolder();
  const path = folder.at('app.db');
  using inbox = await openSqlite(path);
  for (const [index, error] of [
    "ERR_HANDLER_FAILED: bank answered 503 for trf_1, it's 10.50 USDC at 2026-01-02T03:04:05Z.",
    "ERR_HANDLER_FAILED: bank answered 503 for trf_29, it's 7 USDC at 2026-02-02T03:04:05Z.",
    'ERR_HANDLER_FAILED: bank answered 404 for trf_3, no such account.',
    'ERR_HANDLER_FAILED: bank answered 503 for an unknown reason',
  ].entries()) {
    const type = index === 1 ? 'redeem.failed' : 'transfer.settled';
    await fail(inbox, exampleEvent(type, { id: `evt_${index}` }), { error });
  }
  const place = ['inbox', 'errors', '--inbox', path];
  const lines = (await run([...place, '--json'])).stdout.trim().split('\n');
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([
    {
      ...{ state: 'dead', count: 2, types: ['redeem.failed', 'transfer.settled'] },
      error: "ERR_HANDLER_FAILED: bank answered 503 for …, it's … USDC at …",
      first: expect.stringMatching(/^20.*Z$/),
    },
    { count: 1, error: 'ERR_HANDLER_FAILED: bank answered 503 for an unknown reason' },
    { count: 1, error: 'ERR_HANDLER_FAILED: bank answered 404 for …, no such account' },
  ]);
  const { stdout, exitCode } = await run(place);
  expect(exitCode).toBe(0);
  // Of all events with these words, only those of the group.
  const group = "ERR_HANDLER_FAILED: bank answered 503 for …, it's … USDC at …";
  expect(stdout).toContain(`--state dead --group '${group.replace("'", "'\\''")}'\n`);
  await run(['inbox', 'requeue', '--inbox', path, '--state', 'dead', '--group', group, '--wait', '0']);
  const dead = await inbox.list({ state: 'dead', limit: 10 });
  expect(dead.map(({ id }) => id)).toEqual(['evt_2', 'evt_3']);
});

test('the command of a group whose error has several lines selects that group when it is pasted', async () => {
  await using folder = await makeFolder();
  const path = folder.at('app.db');
  using inbox = await openSqlite(path);
  const error = 'ERR_HANDLER_FAILED: two\nlines  and\ta tab';
  await fail(inbox, exampleEvent('transfer.settled', { id: 'evt_1' }), { error });
  const { stdout } = await run(['inbox', 'errors', '--inbox', path]);
  const group = /--group '([^']+)'/.exec(stdout)?.[1] ?? '';
  const { exitCode } = await run(['inbox', 'requeue', '--inbox', path, '--group', group, '--wait', '0']);
  expect(exitCode).toBe(0);
  expect(await inbox.list({ state: 'received', limit: 10 })).toMatchObject([{ id: 'evt_1' }]);
});

test("yesterday's dead are the same events in the command and on the page", async () => {
  await using folder = await makeFolder();
  const path = folder.at('app.db');
  let now = Date.now() - 30 * 3_600_000;
  using inbox = await openSqlite(path, { now: () => now });
  const add = (id: string) => fail(inbox, exampleEvent('transfer.settled', { id }), { retryAfterMs: 0 });
  await add('received_and_dead_before');
  await fail(inbox, exampleEvent('transfer.settled', { id: 'received_and_dead_before' }), { early: true });
  await add('received_before');
  now += 12 * 3_600_000;
  await fail(inbox, exampleEvent('transfer.settled', { id: 'received_before' }), { early: true });
  await fail(inbox, exampleEvent('transfer.settled', { id: 'yesterday' }));
  now += 17 * 3_600_000;
  await fail(inbox, exampleEvent('transfer.settled', { id: 'today' }));

  const [since, until] = [Date.now() - 24 * 3_600_000, Date.now() - 6 * 3_600_000];
  const span = ['--since', new Date(since).toISOString(), '--until', new Date(until).toISOString()];
  const listed = await run(['inbox', 'list', '--state', 'dead', ...span, '--inbox', path, '--json']);
  const ids = listed.stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line).id);
  expect(ids.toSorted()).toEqual(['received_before', 'yesterday']);
  const inspector = createInspector({ source: fromInbox(inbox, { name: 'app' }), authorize: () => true });
  onTestFinished(() => inspector.close());
  const page = `https://app.example/api/events?state=dead&since=${since}&until=${until}`;
  const { rows } = await (await inspector.fetch(new Request(page))).json();
  expect(rows.map(({ id }: { id: string }) => id)).toEqual(ids);
});
