import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { makeFolder, run } from '../command.js';
import { runInTerminal } from '../terminal.js';

describe.concurrent('init', () => {
  test('init writes a whole program with an .env, and prints the commands that start the service and the app', async () => {
    await using folder = await makeFolder();
    const words = ['init', 'my app', '--framework', 'express', '--database', 'sqlite'];
    const { stdout, exitCode } = await run(words, { cwd: folder.path });
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/\ncd 'my app' && npm install\n[\s\S]*\nnpm run sandbox\nnpm run dev\n$/);
    const written = await readdir(folder.at('my app'));
    expect(written).toEqual(
      expect.arrayContaining(['.env', '.gitignore', 'README.md', 'handlers.ts', 'package.json', 'server.ts']),
    );
    expect(await readFile(folder.at('my app/.env'), 'utf8')).toBe(
      await readFile(folder.at('my app/.env.example'), 'utf8'),
    );
  });

  test('init writes a program for a task into the current folder', async () => {
    await using folder = await makeFolder();
    const { stdout, exitCode } = await run(['init', '--example', 'payout'], { cwd: folder.path });
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/\nnpm install\n[\s\S]*\nnpm run sandbox\nnpm run bank\nnpm run dev\n$/);
    expect(await readdir(folder.path)).toContain('orders.ts');
  });

  test('init asks in a terminal what the flags leave open', async () => {
    await using folder = await makeFolder();
    const { exitCode, rows } = await runInTerminal(['init', 'app', '--framework', 'express'], {
      columns: 80,
      cwd: folder.path,
      type: { at: 'Database (sqlite, postgres): ', text: 'postgres\r' },
    });
    expect(exitCode).toBe(0);
    expect(rows.join('\n')).toContain('Wrote express-postgres');
  });

  test.for([
    ['Ctrl-C', '\u0003', 130],
    ['the end of the input', '\u0004', 2],
  ] as const)('init writes nothing after %s', async ([, text, code]) => {
    await using folder = await makeFolder();
    const { exitCode } = await runInTerminal(['init', 'app'], {
      columns: 80,
      cwd: folder.path,
      type: { at: 'Framework (', text },
    });
    expect(exitCode).toBe(code);
    expect(await readdir(folder.path)).toEqual([]);
  });

  test('init refuses a folder with files in the way, and writes nothing there', async () => {
    await using folder = await makeFolder();
    await mkdir(folder.at('.git'));
    await writeFile(folder.at('package.json'), '{}');
    await writeFile(folder.at('.env'), 'STABLEHOOKS_SECRET=whsec_mine\n');
    const { stderr, exitCode } = await run(['init', '--framework', 'fastify'], { cwd: folder.path });
    expect(stderr).toBe('stablehooks: . already contains .env, package.json. Choose another folder.\n');
    expect(exitCode).toBe(2);
    expect((await readdir(folder.path)).sort()).toEqual(['.env', '.git', 'package.json']);
  });

  test.for([
    [[], /Pass --framework: express, fastify, .*This command asks only in a terminal/],
    [['--framework', 'express'], /Pass --database: sqlite, postgres\./],
    [
      ['--framework', 'next', '--database', 'sqlite'],
      /no program for next with sqlite\. Pass --database postgres/,
    ],
    [['--framework', 'rails'], /Allowed choices are express, fastify/],
    [['--example', 'payout', '--database', 'sqlite'], /cannot be used with/],
  ] as const)('init says what to pass when it cannot ask: %j', async ([flags, says]) => {
    await using folder = await makeFolder();
    const { stderr, exitCode } = await run(['init', 'app', ...flags], { cwd: folder.path });
    expect(stderr).toMatch(says);
    expect(exitCode).toBe(2);
    expect(await readdir(folder.path)).toEqual([]);
  });
});
