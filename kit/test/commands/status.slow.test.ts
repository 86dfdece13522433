import { chmod } from 'node:fs/promises';
import Database from 'libsql';
import { exampleEvent } from 'stablehooks/testing';
import { describe, expect, test } from 'vitest';
import { makeFolder, run, start } from '../command.js';
import { fail } from '../inbox-states.js';
import { openSqlite } from '../sqlite-file.js';

describe.concurrent('status', () => {
  test('an inbox that nobody uses shows nothing, and --require-poll and --require-push are exit 1', async () => {
    await using folder = await makeFolder();
    const place = ['status', '--inbox', folder.at('events.db')];
    (await openSqlite(folder.at('events.db')))[Symbol.dispose]();
    const { stdout, exitCode } = await run(place);
    expect(stdout).toMatch(/\n-- {2}coverage {2}Not verified yet: no poll has proven that/);
    expect(stdout).toMatch(/\nNothing to judge: no event has been processed yet\.\n$/);
    expect(exitCode).toBe(0);
    expect((await run([...place, '--require-poll'])).exitCode).toBe(1);
    expect(await run([...place, '--require-push'])).toMatchObject({
      ...{ exitCode: 1, stdout: expect.stringMatching(/\nno {2}refused .*\nNeeds you: refused\.\n$/s) },
    });
  });

  test('a dead event is exit 1, with what to do, and --json prints the checks', async () => {
    await using folder = await makeFolder();
    const path = folder.at('events.db');
    using inbox = await openSqlite(path);
    await fail(inbox, exampleEvent('transfer.settled'), { error: 'broken' });
    const { stdout, exitCode } = await run(['status', '--inbox', path]);
    expect(stdout).toMatch(/\nno {2}dead {6}1 event is dead, .*broken.*stablehooks inbox requeue/);
    expect(exitCode).toBe(1);
    const { stdout: json } = await run(['status', '--inbox', path, '--json']);
    expect(JSON.parse(json)).toMatchObject({ healthy: false });
  });

  test('--watch prints each change until Ctrl-C', async () => {
    await using folder = await makeFolder();
    const path = folder.at('events.db');
    using inbox = await openSqlite(path);
    const watching = start(['status', '--watch', '50ms', '--inbox', path]);
    await watching.printed('Nothing to judge');
    await fail(inbox, exampleEvent('transfer.settled'), { error: 'broken' });
    await watching.printed('Needs you: dead (1)');
    watching.interrupt();
    const { stdout, exitCode } = await watching.ended;
    expect(stdout.match(/^(?:Nothing|Needs) .*$/gm)).toHaveLength(2);
    expect(exitCode).toBe(130);
  });

  test('a file that another process writes, or that is read-only, is judged', async () => {
    await using folder = await makeFolder();
    const path = folder.at('events.db');
    using inbox = await openSqlite(path);
    await fail(inbox, exampleEvent('transfer.settled'), { error: 'broken' });
    const writer = new Database(path);
    writer.exec('BEGIN IMMEDIATE');
    const locked = await run(['status', '--inbox', path]);
    writer.exec('ROLLBACK');
    writer.close();
    expect(locked).toMatchObject({ exitCode: 1, stdout: expect.stringMatching(/\nno {2}dead .*broken/) });

    for (const file of [path, `${path}-wal`, `${path}-shm`]) await chmod(file, 0o444);
    await chmod(folder.path, 0o555);
    const readOnly = await run(['status', '--inbox', path], { obeysRights: true });
    await chmod(folder.path, 0o755);
    expect(readOnly).toMatchObject({
      ...{ exitCode: 1, stdout: expect.stringMatching(/\nno {2}refused .*rejects writes.*\n.*\n*/) },
    });
  });
});
