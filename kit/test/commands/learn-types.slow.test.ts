import { execFileSync } from 'node:child_process';
import { mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createReceiver } from 'stablehooks';
import { exampleEvent } from 'stablehooks/testing';
import { describe, expect, test } from 'vitest';
import { type CommandOptions, makeFolder, run } from '../command.js';
import { SILENT, startService } from '../service.js';
import { openSqlite } from '../sqlite-file.js';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

const toLines = (events: readonly object[]) => events.map((event) => JSON.stringify(event)).join('\n');

/** Runs `types` on these events; its file is `payloads.ts`. */
function learn(cwd: string, events: readonly object[], args: readonly string[] = []) {
  return run(['types', '--from', '-', '--out', 'payloads.ts', ...args], { cwd, input: toLines(events) });
}

const failed = exampleEvent('redeem.failed');
const settled = exampleEvent('transfer.settled');

describe('stablehooks types', () => {
  test('writes schemas that compile under strict TypeScript, type a receiver, and can be formatted', async () => {
    await using folder = await makeFolder();
    const deep = {
      a: [{ b: null }, { b: { 'x-y': [1.5, 'x'] } }],
      "it's": { wal_1: '1' },
      long: 'x'.repeat(90),
    };
    const events = [
      failed,
      settled,
      exampleEvent('accept.confirmed', { payload: deep }),
      ...['one', 'two', 'three', 'four'].map((word) =>
        exampleEvent('transfer.failed', { payload: { reason: `a-reason-that-is-long-${word}` } }),
      ),
    ];
    const { exitCode } = await learn(folder.path, events, [
      '--keep-keys',
      '--enum',
      'transfer.failed.reason',
    ]);
    expect(exitCode).toBe(0);

    const app = `import { createReceiver, withPayload } from 'stablehooks';
import { payloads, type RedeemFailed } from './payloads.js';
export const book = (payload: RedeemFailed): string => payload.amount;
createReceiver({ secret: 'x', handlers: {
  'redeem.failed': withPayload(payloads['redeem.failed'], ({ payload }) => book(payload)),
  'transfer.settled': withPayload(payloads['transfer.settled'], ({ payload }) => {
    const amount: string = payload.amount;
    // @ts-expect-error An amount is a string.
    const number: number = payload.amount;
    return [amount, number];
  }),
} });
`;
    await writeFile(folder.at('app.ts'), app);
    await writeFile(folder.at('package.json'), '{"type":"module"}');
    await symlink(join(ROOT, 'node_modules'), folder.at('node_modules'));
    const options = ['--strict', '--exactOptionalPropertyTypes', '--noUncheckedIndexedAccess', '--noEmit'];
    const target = ['--target', 'es2022', '--module', 'nodenext', '--types', 'node', '--skipLibCheck'];
    const tsc = join(ROOT, 'node_modules/typescript/bin/tsc');
    execFileSync(process.execPath, [tsc, ...options, ...target, 'app.ts'], { cwd: folder.path });

    const source = await readFile(folder.at('payloads.ts'), 'utf8');
    const biome = join(ROOT, 'node_modules/@biomejs/biome/bin/biome');
    await writeFile(folder.at('biome.json'), '{"root":true}');
    const format = ['format', '--stdin-file-path=payloads.ts', '--indent-style=space'];
    const quotes = '--javascript-formatter-quote-style=single';
    const formatted = execFileSync(process.execPath, [biome, ...format, quotes], {
      cwd: folder.path,
      input: source,
      encoding: 'utf8',
    });
    await writeFile(folder.at('payloads.ts'), formatted);
    const again = await learn(folder.path, events, ['--check']);
    expect(again).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('The events match') });
  });

  test('keeps what the file has, adds what new events have, and says which types are not learned', async () => {
    await using folder = await makeFolder();
    const first = await learn(folder.path, [failed]);
    expect(first.stdout).toMatch(/^redeem\.failed +1 +learned$/m);
    expect(first.stdout).toMatch(/^transfer\.settled +0 +not learned: no events$/m);
    const second = await learn(folder.path, [settled, { ...failed, payload: { amount: 1 } }]);
    expect(second.stdout).toMatch(/^redeem\.failed +1 +extended$/m);
    expect(second.stdout).toContain('redeem.failed.amount is also a number\n');
    const source = await readFile(folder.at('payloads.ts'), 'utf8');
    expect(source).toContain('amount: z.union([z.int(), z.string()]),');
    expect(source).toContain('bank: z.optional(z.string()),');
    const third = await learn(folder.path, [settled, failed]);
    expect(third).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('is unchanged.') });
    expect(await readFile(folder.at('payloads.ts'), 'utf8')).toBe(source);
  });

  test('learns from the service: the newest of each type, so that a frequent type hides no other', async () => {
    await using service = await startService();
    await using folder = await makeFolder();
    service.sandbox.emit('redeem.failed');
    for (let n = 0; n < 30; n++) service.sandbox.emit('transfer.settled');
    service.sandbox.emit('mint.completed', { newer: 1 });
    const args = ['types', '--since', '30d', '--limit', '20', '--out', 'payloads.ts'];
    const { exitCode, stdout, stderr } = await run(args, { env: service.env, cwd: folder.path });
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/^redeem\.failed +1 +learned$/m);
    expect(stdout).toMatch(/^transfer\.settled +20 +learned$/m);
    expect(stderr).toContain(
      'listed 20 transfer.settled events, which is the limit. There may be more: raise --limit.',
    );
  });

  test('learns from an inbox, events of every state included', async () => {
    await using folder = await makeFolder();
    // Drivers come from the project in the current folder.
    await symlink(join(ROOT, 'node_modules'), folder.at('node_modules'));
    using inbox = await openSqlite(folder.at('app.db'));
    const receiver = createReceiver({
      secret: 'x',
      inbox,
      logger: SILENT,
      handlers: {
        'redeem.failed': () => undefined,
        'transfer.settled': () => Promise.reject(new Error('fails')),
      },
    });
    for (const event of [failed, settled]) await receiver.accept(event, 'push');
    const args = ['types', '--inbox', 'app.db', '--out', 'payloads.ts'];
    const { exitCode, stdout } = await run(args, { cwd: folder.path });
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/^redeem\.failed +1 +learned$/m);
    expect(stdout).toMatch(/^transfer\.settled +1 +learned$/m);
  });

  test('reads a JSON array as well as lines, and only events created since then', async () => {
    await using folder = await makeFolder();
    const old = { ...settled, created_at: '2020-01-01T00:00:00Z' };
    await writeFile(folder.at('events.json'), JSON.stringify([failed, old]));
    const args = ['types', '--from', 'events.json', '--since', '2026-01-01T00:00:00Z', '--out', 'p.ts'];
    const { stdout } = await run(args, { cwd: folder.path });
    expect(stdout).toMatch(/^redeem\.failed +1 +learned$/m);
    expect(stdout).toMatch(/^transfer\.settled +0 +not learned: no events$/m);
  });

  test('writes keys that look like data only with --keep-keys, and --map keeps them out of the file', async () => {
    const event = { ...failed, payload: { balances: { wal_01JZ8Q5F1D2222: { '0xabcdef': '1.00' } } } };
    await using folder = await makeFolder();
    const refused = await learn(folder.path, [event]);
    expect(refused).toMatchObject({ exitCode: 2, stdout: '' });
    expect(refused.stderr).toBe(
      "stablehooks: Nothing was written, because keys look like data: 1 in redeem.failed.balances. If keys are data, pass --map 'redeem.failed.balances'; if they are names of fields, pass --keep-keys.\n",
    );
    await expect(readFile(folder.at('payloads.ts'))).rejects.toThrow('ENOENT');

    const maps = ['--map', 'redeem.failed.balances', '--map', 'redeem.failed.balances.*'];
    const mapped = await learn(folder.path, [event], maps);
    expect(mapped).toMatchObject({ exitCode: 0, stderr: '' });
    const source = await readFile(folder.at('payloads.ts'), 'utf8');
    expect(source).toContain('balances: z.record(z.string(), z.record(z.string(), z.string())),');
    expect(source).not.toContain('wal_');

    await using other = await makeFolder();
    const kept = await learn(other.path, [event], ['--keep-keys']);
    expect(kept.exitCode).toBe(0);
    expect(await readFile(other.at('payloads.ts'), 'utf8')).toContain('wal_01JZ8Q5F1D2222');
    // The file has these keys: another run need not say it again.
    expect((await learn(other.path, [event])).exitCode).toBe(0);
  });

  test('leaves a file as it is when a new key of its object looks like data', async () => {
    await using folder = await makeFolder();
    const withKey = (key: string) => ({ ...failed, payload: { balances: { [key]: '1.00' } } });
    await learn(folder.path, [withKey('usdc')]);
    const before = await readFile(folder.at('payloads.ts'), 'utf8');
    const { exitCode, stderr } = await learn(folder.path, [withKey('0xabcdef')]);
    expect(exitCode).toBe(2);
    expect(stderr).toContain("delete payloads.ts and pass --map 'redeem.failed.balances'");
    expect(await readFile(folder.at('payloads.ts'), 'utf8')).toBe(before);
  });
});

describe('the keys of objects in a learned file', () => {
  const withKeys = (keys: readonly string[]) => ({
    ...failed,
    payload: { by: Object.fromEntries(keys.map((key) => [key, '1.00'])) },
  });

  test('are neither written nor printed if they look like data', async () => {
    const keys = [
      'alice@example.com',
      'John Smith',
      'john.smith',
      'acct:alice',
      '+49 170 12',
      '17',
      '7f3a',
      'wal_9f3ab2c1',
      'V1StGXR8_Z5jdHi6B-myT',
      '2026-01-31',
      '0xAbC',
      'a'.repeat(32),
      'DE89370400440532013000',
      'a/b',
      '10.50',
    ];
    await using folder = await makeFolder();
    const { exitCode, stdout, stderr } = await learn(folder.path, [withKeys(keys)]);
    expect(stderr).toContain(`keys look like data: ${keys.length} in redeem.failed.by.`);
    for (const key of keys) expect(stdout + stderr.replaceAll(/\b\d+ in /g, '')).not.toContain(key);
    expect(await readdir(folder.path)).toEqual([]);
    expect(exitCode).toBe(2);
  });

  test('are written if they are names of fields', async () => {
    const names =
      'amount created_at perTx x-request-id _links $ref @type line1 sha256 p2p_2fa größe USDC'.split(' ');
    await using folder = await makeFolder();
    const { exitCode } = await learn(folder.path, [withKeys([...names, 'a'.repeat(31)])]);
    expect(exitCode).toBe(0);
  });
});

describe('stablehooks types --check', () => {
  test('exits with 0 when every event is as the file says, and names the types that it did not see', async () => {
    await using folder = await makeFolder();
    await learn(folder.path, [failed, settled]);
    const before = await readFile(folder.at('payloads.ts'), 'utf8');
    const { exitCode, stdout } = await learn(folder.path, [failed], ['--check']);
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/^redeem\.failed +1 +matches$/m);
    expect(stdout).toMatch(/^transfer\.settled +0 +not shown: no events$/m);
    // The file does not have this type either.
    expect(stdout).toMatch(/^transfer\.failed +0 +not shown: no events$/m);
    expect(await readFile(folder.at('payloads.ts'), 'utf8')).toBe(before);
  });

  test('prints one JSON value with the differences', async () => {
    await using folder = await makeFolder();
    await learn(folder.path, [failed]);
    const changed = { ...failed, payload: { ...failed.payload, amount: 1 } };
    const { stdout } = await learn(folder.path, [changed], ['--check', '--json']);
    expect(JSON.parse(stdout)).toMatchObject({
      out: 'payloads.ts',
      changed: true,
      differences: [{ field: 'redeem.failed.amount', what: 'is also a number', events: 1 }],
    });
  });
});

describe('stablehooks types never succeeds', () => {
  test.each([['--check'], []])('without events, with the flags "%s"', async (...args) => {
    await using folder = await makeFolder();
    await learn(folder.path, [failed]);
    const before = await readFile(folder.at('payloads.ts'), 'utf8');
    for (const events of [[], [{ ...failed, type: 'newer.type' }]]) {
      const { exitCode, stdout, stderr } = await learn(folder.path, events, args);
      expect(exitCode).toBe(1);
      expect(stdout).toContain('not shown: no events');
      expect(stderr).toBe(
        events.length === 0 ? '' : 'Skipped: 1 event of a type that this release does not know.\n',
      );
    }
    expect(await readFile(folder.at('payloads.ts'), 'utf8')).toBe(before);
  });

  test.each<[string, readonly string[], RegExp, CommandOptions?]>([
    [
      'no file to check',
      ['--out', 'none.ts', '--check'],
      /--out none\.ts: the file does not exist\. Run .* without/,
    ],
    [
      'a file of somebody else',
      ['--out', 'own.ts'],
      /--out own\.ts: Line 1 does not have the form that `stablehooks types` writes/,
    ],
    ['a folder as file', ['--out', 'folder'], /this is a folder/i],
    ['a missing folder', ['--out', 'no/p.ts'], /The file or folder does not exist/],
    ['two sources', ['--out', 'p.ts', '--inbox', 'app.db'], /Pass --from or --inbox, not both/],
    [
      'keys to keep for a check',
      ['--out', 'p.ts', '--check', '--keep-keys'],
      /--keep-keys has no effect with --check/,
    ],
    ['an enum of no type', ['--out', 'p.ts', '--enum', 'redeem.faild.x'], /write an event type and a field/],
    [
      'a misspelt enum',
      ['--out', 'p.ts', '--enum', 'redeem.failed.resaon'],
      /--enum redeem\.failed\.resaon has no effect/,
    ],
    [
      'a map that is not an object',
      ['--out', 'p.ts', '--map', 'redeem.failed.amount'],
      /has no effect: no event has an object/,
    ],
    [
      'text that is not JSON',
      ['--out', 'p.ts'],
      /--from -, line 2: this is not JSON/,
      { input: `${toLines([failed])}\n<html>` },
    ],
    [
      'JSON that is not an event',
      ['--out', 'p.ts'],
      /--from -, element 2: .*created_at/,
      { input: JSON.stringify([failed, { ...failed, created_at: 1 }]) },
    ],
  ])('with %s: exit code 2', async (_, args, says, options) => {
    await using folder = await makeFolder();
    await mkdir(folder.at('folder'));
    await writeFile(folder.at('own.ts'), 'export const payloads = {};\n');
    const command = ['types', '--from', '-', ...args];
    const ended = await run(command, { cwd: folder.path, input: toLines([failed]), ...options });
    expect(ended).toMatchObject({ exitCode: 2, stderr: expect.stringMatching(says) });
    expect(await readFile(folder.at('own.ts'), 'utf8')).toBe('export const payloads = {};\n');
  });
});
