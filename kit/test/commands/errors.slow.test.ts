import { exampleEvent } from 'stablehooks/testing';
import { expect, test } from 'vitest';
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
    { count: 1, error: 'ERR_HANDLER_FAILED: bank answered 404 for …, no such account' },
  ]);
  const { stdout, exitCode } = await run(place);
  expect(exitCode).toBe(0);
  const [, flags = ''] = /stablehooks (inbox requeue .*)/.exec(stdout) ?? [];
  expect(flags).toContain("--state dead --error 'ERR_HANDLER_FAILED: bank answered 503 for '");
  const part = 'ERR_HANDLER_FAILED: bank answered 503 for ';
  await run(['inbox', 'requeue', '--inbox', path, '--state', 'dead', '--error', part, '--wait', '0']);
  const dead = await inbox.list({ state: 'dead', limit: 10 });
  expect(dead.map(({ id }) => id)).toEqual(['evt_2']);
});
