/** The commands that change the events that match. */
import { writeFile } from 'node:fs/promises';
import { createReceiver, type EventContext, PermanentError } from 'stablehooks';
import { toNodeHandler } from 'stablehooks/node';
import { exampleEvent } from 'stablehooks/testing';
import { describe, expect, test } from 'vitest';
import { makeFolder, run, SECRET } from '../command.js';
import { serve } from '../http-server.js';
import { fail } from '../inbox-states.js';
import { SILENT } from '../service.js';
import { deliverToFile, openSqlite } from '../sqlite-file.js';

/** A file with dead events `a` and `b`, a failed `c` of key `k`, a received `d` and a done `e`. */
async function fill(path: string): Promise<void> {
  using inbox = await openSqlite(path);
  const rows = [
    ['a', 'transfer.failed', null, 'the account was closed', undefined],
    ['b', 'redeem.failed', null, 'the ledger is down', undefined],
    ['c', 'redeem.failed', 3_600_000, 'the ledger is down', 'k'],
  ] as const;
  for (const [id, type, retryAfterMs, error, key] of rows) {
    await fail(inbox, exampleEvent(type, { id }), { retryAfterMs, error, key });
  }
  const event = { ...exampleEvent('redeem.failed'), id: 'd' };
  await inbox.record([event], { origin: 'push', dueInMs: 0 });
  await inbox.importDone(['e']);
}

const AUDIT = ['--by', 'ada', '--reason', 'booked by hand'];

/** The ids of the events that the flags select. */
const SELECTIONS: readonly (readonly [flags: string, requeue: string, discard: string])[] = [
  ['--state dead', 'ab', 'ab'],
  ['--type redeem.failed', 'bc', 'bcd'],
  ['--state dead --type redeem.failed --since 24h', 'b', 'b'],
  ['--error ledger', 'bc', 'bc'],
  ['--key k', 'c', 'c'],
  ['--since 1h', 'abc', 'abcd'],
  ['--until 1h', '', ''],
  ['--type transfer.settled', '', ''],
  ['--state dead --limit 1', 'a', 'a'],
];

describe.concurrent.each(['requeue', 'discard'] as const)('inbox %s', (name) => {
  const extra = name === 'requeue' ? ['--wait', '0'] : AUDIT;
  const after = name === 'requeue' ? 'received' : 'done';

  test.for(SELECTIONS)('changes what %s selects', async ([flags, ...selected]) => {
    await using folder = await makeFolder();
    const path = folder.at('app.db');
    await fill(path);
    using inbox = await openSqlite(path);
    const read = async () =>
      (await inbox.list({ limit: 9 })).filter(({ state }) => state === after).map(({ id }) => id);
    const expected = [...(selected[name === 'requeue' ? 0 : 1] ?? '')];
    const before = await read();
    const args = ['inbox', name, '--inbox', path, ...flags.split(' '), ...extra];
    const dry = await run([...args, '--dry-run']);
    expect(await read()).toEqual(before);
    const { stdout, stderr, exitCode } = await run(args);
    expect([dry.exitCode, exitCode]).toEqual(expected.length === 0 ? [1, 1] : [0, 0]);
    expect((await read()).toSorted()).toEqual([...new Set([...before, ...expected])].toSorted());
    expect(stdout).toContain(expected.length === 0 ? 'No event matches' : `${expected.length} event`);
    expect(stderr).toMatch(/^(?:This release.*\n)?\d events? match/);
  });
});

test('inbox discard keeps who and why, refuses an event that is done, and later deliveries are duplicates', async () => {
  await using folder = await makeFolder();
  const path = folder.at('app.db');
  await fill(path);
  using inbox = await openSqlite(path);
  expect((await run(['inbox', 'discard', 'a', 'd', '--inbox', path, ...AUDIT])).exitCode).toBe(0);
  const reason = { result: 'discarded', by: 'ada', reason: 'booked by hand' };
  expect((await inbox.find('a'))?.history.at(-1)).toMatchObject(reason);
  const again = await run(['inbox', 'discard', 'a', 'b', '--inbox', path, ...AUDIT]);
  expect(again.stderr).toContain('a is done. This command only changes events in one of these states: ');
  expect([again.exitCode, (await inbox.find('b'))?.state]).toEqual([2, 'dead']);
});

test('inbox discard by flags is a failure while a handler runs an event that matches', async () => {
  await using folder = await makeFolder();
  const path = folder.at('app.db');
  await fill(path);
  using inbox = await openSqlite(path);
  await inbox.claim(exampleEvent('redeem.failed'), { leaseMs: 60_000, origin: 'push' });
  const args = ['inbox', 'discard', '--type', 'redeem.failed', '--inbox', path, ...AUDIT];
  const { stdout, stderr, exitCode } = await run(args);
  expect(stdout).toMatch(/^3 events discarded: /);
  expect(stderr).toContain('Not discarded: 1 event still leased by a process. ');
  expect(exitCode).toBe(1);
});

test('inbox requeue is a success only once a process has run the events', async () => {
  await using folder = await makeFolder();
  const path = folder.at('app.db');
  await fill(path);
  using inbox = await openSqlite(path);
  const requeue = (...words: readonly string[]) => run(['inbox', 'requeue', '--inbox', path, ...words]);
  const unseen = await requeue('a', '--wait', '300ms');
  expect(unseen.stdout).toBe('1 event requeued; now 1 received.\n');
  expect(unseen.stderr).toContain(`\`stablehooks inbox run a --inbox ${path} --to URL\``);
  expect(unseen.exitCode).toBe(1);
  const receiver = createReceiver({
    secret: SECRET,
    inbox,
    logger: SILENT,
    handlers: {
      'transfer.failed': () => undefined,
      'redeem.failed': ({ id }) => {
        if (id === 'b') throw new PermanentError('the ledger is gone');
      },
    },
  });
  receiver.start({ intervalMs: 20 });
  try {
    expect(await requeue('c', '--wait', '30s')).toMatchObject({
      stdout: '1 event requeued; now 1 done.\n',
      exitCode: 0,
    });
    const failed = await requeue('b', '--wait', '30s');
    expect(failed.stderr).toContain('1 failed again. ');
    expect(failed).toMatchObject({ stdout: '1 event requeued; now 1 dead.\n', exitCode: 1 });
    const why = ['--by', 'ada', '--reason', 'the bank is back'];
    expect((await requeue('b', '--wait', '0', ...why)).exitCode).toBe(0);
    const change = { result: 'requeued', by: 'ada', reason: 'the bank is back' };
    expect((await inbox.find('b'))?.history).toContainEqual(expect.objectContaining(change));
  } finally {
    await receiver.close();
  }
});

test('inbox requeue makes one event due, and the others only once it ran: the cause may still be there', async () => {
  await using folder = await makeFolder();
  const path = folder.at('app.db');
  const events = ['a', 'b', 'c'].map((id) => exampleEvent('transfer.failed', { id }));
  await deliverToFile(path, events);
  using inbox = await openSqlite(path);
  const dead = async () => (await inbox.list({ state: 'dead', limit: 9 })).map(({ id }) => id);
  const requeue = (...words: readonly string[]) =>
    run(['inbox', 'requeue', '--inbox', path, '--state', 'dead', '--wait', ...words]);

  const unseen = await requeue('300ms');
  expect(unseen.stdout).toBe('1 event requeued; now 1 received.\n');
  expect(unseen.stderr).toContain(
    'Not requeued, because the first event did not succeed: 2 events. Pass --wait 0',
  );
  expect([unseen.exitCode, await dead()]).toEqual([1, ['b', 'c']]);

  let isFixed = false;
  const handler = () => {
    if (!isFixed) throw new PermanentError('the account is still closed');
  };
  const receiver = createReceiver({
    ...{ secret: SECRET, inbox, logger: SILENT },
    handlers: { 'transfer.failed': handler },
  });
  receiver.start({ intervalMs: 20 });
  try {
    const failed = await requeue('30s');
    expect(failed.stdout).toBe('1 event requeued; now 1 dead.\n');
    expect(failed.exitCode).toBe(1);
    expect((await dead()).length).toBeGreaterThanOrEqual(2);
    isFixed = true;
    expect(await requeue('30s')).toMatchObject({
      exitCode: 0,
      stdout: expect.stringMatching(/now \d done\.\n$/),
    });
    expect(await dead()).toEqual([]);
  } finally {
    await receiver.close();
  }
});

test('inbox run runs events that are due, and those of a type and a time, in one command', async () => {
  await using folder = await makeFolder();
  const path = folder.at('app.db');
  await fill(path);
  using inbox = await openSqlite(path);
  const handled: string[] = [];
  const handlers = { 'redeem.failed': ({ id }: { readonly id: string }) => void handled.push(id) };
  const receiver = createReceiver({ secret: SECRET, inbox, logger: SILENT, handlers });
  await using server = await serve(toNodeHandler(receiver));
  const selected = ['--type', 'redeem.failed', '--since', '24h'];
  const { stderr, exitCode } = await run(['inbox', 'run', ...selected, '--inbox', path, '--to', server.url]);
  expect(stderr).toContain('3 events match: 1 received, 1 failed, 1 dead.\n');
  expect([handled.toSorted(), exitCode]).toEqual([['b', 'c', 'd'], 0]);
});

test('inbox run sends the stored text, in which large numbers are not rounded', async () => {
  await using folder = await makeFolder();
  const path = folder.at('app.db');
  using inbox = await openSqlite(path);
  const text =
    '{ "id": "big", "type": "redeem.failed", "created_at": "2026-01-01T00:00:00Z", "payload": { "units": 1234567890123456789012 } }';
  await inbox.record([JSON.parse(text)], { json: [text], origin: 'push', dueInMs: 3_600_000 });
  const texts: string[] = [];
  const handlers = { 'redeem.failed': (_: unknown, { json }: EventContext) => void texts.push(json) };
  const receiver = createReceiver({ secret: SECRET, inbox, logger: SILENT, handlers });
  await using server = await serve(toNodeHandler(receiver));
  expect((await run(['inbox', 'run', 'big', '--inbox', path, '--to', server.url])).exitCode).toBe(0);
  expect(texts).toEqual([text]);
});

test('a dry run counts only what the run would change, and says why it would leave the rest', async () => {
  await using folder = await makeFolder();
  const path = folder.at('app.db');
  using inbox = await openSqlite(path);
  const claim = async (id: string, leaseMs: number) => {
    const claimed = await inbox.claim(exampleEvent('redeem.failed', { id }), { leaseMs, origin: 'push' });
    if (claimed.state !== 'claimed') throw new Error(claimed.state);
    return claimed.lease;
  };
  await claim('running', 3_600_000);
  await claim('expired', 0);
  const lease = await claim('halfway', 60_000);
  await inbox.saveStep?.(lease, 'payout', null);
  await inbox.fail(lease, { retryAfterMs: null, error: 'no' });
  const call = (...args: string[]) => run(['inbox', ...args, '--inbox', path]);
  for (const [which, dry, why] of [
    ['--state leased', 1, 'running: The handler may still be running'],
    ['--state dead', 0, 'halfway: its step payout began but recorded no result'],
    ['halfway --step payout=again', 1, ''],
    ['running --force', 1, ''],
  ] as const) {
    const args = ['requeue', ...which.split(' ')];
    const shown = await call(...args, '--dry-run');
    expect(shown).toMatchObject({
      stdout: `${dry} event${dry === 1 ? '' : 's'} would be requeued. Nothing was changed.\n`,
      stderr: expect.stringContaining(why),
      exitCode: dry === 0 ? 1 : 0,
    });
    const { stdout } = await call(...args, '--wait', '0');
    expect(stdout).toBe(`${dry} event${dry === 1 ? '' : 's'} requeued.\n`);
  }
});

test('inbox run names the step whose effect is unknown as the reason to skip an event, and its dry run does not count it', async () => {
  await using folder = await makeFolder();
  const path = folder.at('app.db');
  using inbox = await openSqlite(path);
  const claimed = await inbox.claim(exampleEvent('redeem.failed', { id: 'halfway' }), {
    ...{ leaseMs: 60_000, origin: 'push' },
  });
  if (claimed.state !== 'claimed') throw new Error(claimed.state);
  await inbox.saveStep?.(claimed.lease, 'payout', null);
  await inbox.fail(claimed.lease, { retryAfterMs: null, error: 'no' });
  const args = ['inbox', 'run', 'halfway', '--inbox', path, '--to', 'http://127.0.0.1:9/hooks'];
  const why = 'its step payout began but recorded no result';
  expect(await run([...args, '--dry-run'])).toMatchObject({
    stdout: '0 events would be sent. Nothing was changed.\n',
    stderr: expect.stringContaining(`halfway: ${why}`),
    exitCode: 1,
  });
  const real = await run(args);
  expect(real.stderr).toContain(`halfway was skipped: ${why}`);
  expect(real.exitCode).toBe(1);
});

test('a search of payloads says how many events it could not read, and an empty selection how many there are', async () => {
  await using folder = await makeFolder();
  const path = folder.at('app.db');
  await deliverToFile(path, [exampleEvent('transfer.settled')]);
  using inbox = await openSqlite(path);
  await inbox.importDone(['imported']);
  const call = (...args: string[]) => run(['inbox', ...args, '--inbox', path]);
  expect(await call('list', '--where', 'payload.transfer_id=other')).toMatchObject({
    stdout: 'No events.\n',
    stderr: expect.stringMatching(
      /^None of the 2 events in this inbox matches\.\nNot searched: 1 event without readable text/,
    ),
  });
  await inbox.prune({ olderThanMs: 0 });
  const pruned = await call('requeue', '--ignored', '--dry-run');
  expect(pruned).toMatchObject({
    exitCode: 1,
    stdout: expect.stringContaining('whose text is pruned cannot run'),
  });
});

test('inbox run with a wrong secret keeps the error with which the event failed', async () => {
  await using folder = await makeFolder();
  const path = folder.at('app.db');
  await fill(path);
  using inbox = await openSqlite(path);
  const receiver = createReceiver({ secret: 'another', inbox, logger: SILENT, handlers: {} });
  await using server = await serve(toNodeHandler(receiver));
  for (const id of ['a', 'c']) {
    const before = await inbox.find(id);
    expect((await run(['inbox', 'run', id, '--inbox', path, '--to', server.url])).exitCode).toBe(1);
    const after = await inbox.find(id);
    expect(after?.state).toBe(before?.state);
    expect(after?.lastError).toMatch(new RegExp(`^${before?.lastError}; inbox run: .*401`));
  }
});

test('inbox import records ids as done, and is a failure while one of them can still run', async () => {
  await using folder = await makeFolder();
  const path = folder.at('app.db');
  await fill(path);
  await writeFile(folder.at('ids.txt'), 'new_1\r\nnew_2\n\ne\n');
  const args = ['inbox', 'import', '--inbox', path, '--ids'];
  expect(await run([...args, folder.at('ids.txt')])).toEqual({
    stdout: '2 ids imported as done; 1 of 3 were already in the inbox.\n',
    stderr: '',
    exitCode: 0,
  });
  const open = await run([...args, '-'], { input: 'new_1\na\n' });
  expect(open.stderr).toContain('Left unchanged, because they are not done: 1 dead.');
  expect(open.exitCode).toBe(1);
  using inbox = await openSqlite(path);
  const receiver = createReceiver({ secret: SECRET, inbox, logger: SILENT, handlers: {} });
  const event = { ...exampleEvent('redeem.failed'), id: 'new_2' };
  expect(await receiver.accept(event, 'push')).toMatchObject({ kind: 'duplicate' });
});

test('inbox list selects by the same flags, newest first', async () => {
  await using folder = await makeFolder();
  const path = folder.at('app.db');
  await fill(path);
  const { stdout } = await run(['inbox', 'list', '--inbox', path, '--type', 'redeem.failed', '--json']);
  const ids = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line).id);
  expect(ids.toSorted()).toEqual(['b', 'c', 'd']);
  const none = await run(['inbox', 'list', '--inbox', path, '--type', 'redeem.faild']);
  expect(none.stderr).toContain('This release does not know the event type redeem.faild.');
});

test('requeue, discard and run leave a running event alone without --force, and take one whose clock was ahead', async () => {
  await using folder = await makeFolder();
  const path = folder.at('app.db');
  const claim = async (id: string, aheadMs: number) => {
    using inbox = await openSqlite(path, { now: () => Date.now() + aheadMs });
    const event = exampleEvent('redeem.failed', { id });
    expect(await inbox.claim(event, { leaseMs: 3_600_000, origin: 'push' })).toMatchObject({
      state: 'claimed',
    });
  };
  await claim('ahead', 86_400_000);
  for (const id of ['a', 'b', 'c']) await claim(id, 0);
  const call = (name: string, ...args: string[]) => run(['inbox', name, ...args, '--inbox', path]);
  expect(await call('requeue', 'ahead', '--wait', '0')).toMatchObject({
    stdout: expect.stringContaining('1 event requeued'),
  });
  const wait = ['--wait', '0'];
  const to = ['--to', 'http://127.0.0.1:9/hooks'];
  for (const [name, id, extra] of [
    ['requeue', 'a', wait],
    ['discard', 'b', AUDIT],
    ['run', 'c', to],
  ] as const) {
    const refused = await call(name, id, ...extra);
    expect(refused.exitCode).toBe(1);
    expect(refused.stderr).toContain('the effect may happen twice');
    using inbox = await openSqlite(path);
    expect((await inbox.find(id))?.state).toBe('leased');
    await call(name, id, ...extra, '--force');
    // Nothing listens there, so the run failed.
    expect((await inbox.find(id))?.state).toBe({ requeue: 'received', discard: 'done', run: 'failed' }[name]);
  }
});

test('inbox requeue --rehearsed requeues those that a rehearsal has shown to succeed', async () => {
  await using folder = await makeFolder();
  const path = folder.at('events.db');
  using inbox = await openSqlite(path);
  for (const id of ['a', 'b'])
    await fail(inbox, exampleEvent('transfer.settled', { id }), { error: 'broken' });
  const requeue = (...words: readonly string[]) =>
    run(['inbox', 'requeue', '--inbox', path, '--wait', '0', ...words]);
  const file = folder.at('rehearsed.json');
  await writeFile(file, JSON.stringify([{ id: 'a', verdict: 'fails' }]));
  expect(await requeue('--rehearsed', file)).toMatchObject({
    ...{ exitCode: 2, stderr: expect.stringMatching(/contains no event that succeeded/) },
  });
  await writeFile(
    file,
    JSON.stringify([
      { id: 'a', verdict: 'fails' },
      { id: 'b', verdict: 'succeeds' },
    ]),
  );
  expect((await requeue('--rehearsed', file)).stdout).toBe('1 event requeued.\n');
  expect([(await inbox.find('a'))?.state, (await inbox.find('b'))?.state]).toEqual(['dead', 'received']);
});
