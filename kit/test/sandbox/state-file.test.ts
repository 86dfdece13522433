import { spawnSync } from 'node:child_process';
import { createHmac } from 'node:crypto';
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Attempt, createSandbox } from 'stablehooks-kit/sandbox';
import { expect, onTestFinished, test } from 'vitest';
import { startSandbox } from './sandbox-server.js';

function stateFile(): string {
  const folder = mkdtempSync(join(tmpdir(), 'sandbox-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return join(folder, 'state.json');
}

test('a state file restores wallets, events, faults, endpoints and pending work', async () => {
  const path = stateFile();
  const options = { stateFile: path, clock: 'manual', seed: 5 } as const;
  const first = createSandbox({ ...options, movementMs: 1000, maxAttempts: 3 });
  first.faults.set({ drop: 1 });
  first.endpoints.add({ url: 'http://127.0.0.1:1/', secret: 'kept' });
  const { id } = first.wallets.create({
    agentId: 'agent',
    chain: 'solana',
    limits: { perTx: '5', daily: '9' },
    allowlist: ['shop'],
  });
  first.send(id, { amount: '5', to: 'shop' });
  first.emit('accept.confirmed');
  await first.clock.advance(10);
  await first.close();
  expect(statSync(path).mode & 0o777).toBe(0o600);
  expect(readdirSync(join(path, '..'))).toEqual(['state.json']);

  const second = createSandbox({ ...options, movementMs: 1000, maxAttempts: 3 });
  expect(second.clock.now()).toBe(first.clock.now());
  expect(second.faults.get()).toEqual(first.faults.get());
  expect(second.endpoints.list()).toEqual(first.endpoints.list());
  expect(second.wallets.list()).toEqual(first.wallets.list());
  expect(second.events()).toEqual(first.events());
  expect(second.attempts()).toEqual(first.attempts());
  expect(second.deliveries()).toMatchObject([{ state: 'pending' }]);
  await second.settled();
  expect(second.events().map(({ type }) => type)).toEqual(['transfer.settled', 'accept.confirmed']);
  expect(second.deliveries().every(({ state, attempts }) => state === 'exhausted' && attempts === 3)).toBe(
    true,
  );
  await second.close();
});

test('the state is saved after a change without a call of save', async () => {
  const path = stateFile();
  const { sandbox } = await startSandbox({ stateFile: path, saveAfterMs: 1 });
  const { id } = sandbox.emit('accept.confirmed');
  await expect.poll(() => saved(path)).toContain(id);
});

test('a file that is not a state file is refused, unchanged and never quoted', () => {
  const path = stateFile();
  const header = '{"stablehooks":"sandbox state","version":1}\n';
  const counts = { movements: 0, events: 0, deliveries: 0 };
  for (const text of [
    '{"secret":"hush',
    '{"version":2,"secret":"hush"}',
    '{"stablehooks":"sandbox state","version":2}\n{"secret":"hush"}',
    `${header}{"secret":"hush"}`,
    `${header}${JSON.stringify({ saved: { now: 1, faults: { drop: 'hush' }, endpoints: {}, counts } })}`,
    `${header}${JSON.stringify({ event: { id: 'hush' } })}\n`,
    '[]',
    'null',
  ]) {
    writeFileSync(path, text);
    expect(() => createSandbox({ stateFile: path })).toThrow(
      /is not a state file of this version of the sandbox/,
    );
    expect(() => createSandbox({ stateFile: path })).not.toThrow(/hush/);
    expect(readFileSync(path, 'utf8')).toBe(text);
  }
});

function saved(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

test('a pending delivery to a function of the previous process is exhausted', async () => {
  const options = {
    stateFile: stateFile(),
    endpoints: [{ fetch: () => new Response(null, { status: 500 }) }],
  };
  const first = createSandbox(options);
  first.emit('accept.confirmed');
  await first.close();
  const { sandbox } = await startSandbox(options);
  await sandbox.settled();
  expect(sandbox.deliveries()).toMatchObject([{ state: 'exhausted' }]);
});

test('a pending delivery of an event that is no longer kept is exhausted', async () => {
  const path = stateFile();
  const options = { stateFile: path, maxEvents: 1, endpoints: [{ url: 'http://127.0.0.1:1/' }] };
  const first = createSandbox({ ...options, faults: { delay: 1, delayMs: 60_000 } });
  const forgotten = first.emit('accept.confirmed');
  first.emit('accept.confirmed');
  await first.close();
  const { sandbox } = await startSandbox(options);
  expect(sandbox.deliveries({ eventId: forgotten.id })).toMatchObject([{ state: 'exhausted' }]);
});

test('new endpoints, faults and the secret of the options take effect beside a state file', async () => {
  const path = stateFile();
  const [old, added] = ['http://127.0.0.1:1/old', 'http://127.0.0.1:1/added'];
  const first = createSandbox({
    stateFile: path,
    secret: 'one',
    endpoints: [{ url: old }],
    faults: { delay: 1 },
  });
  first.endpoints.add({ url: 'http://127.0.0.1:1/own', secret: 'own' });
  await first.close();
  expect(saved(path)).not.toContain('"one"');
  const { sandbox } = await startSandbox({
    stateFile: path,
    secret: 'two',
    endpoints: [{ url: old }, { url: added }],
    faults: { duplicate: 0.5, delay: 0 },
    maxAttempts: 1,
  });
  expect(sandbox.endpoints.list().map(({ url }) => url)).toEqual([old, 'http://127.0.0.1:1/own', added]);
  expect(sandbox.faults.get()).toMatchObject({ duplicate: 0.5, delay: 0 });
  sandbox.emit('accept.confirmed');
  await sandbox.settled();
  const signer = (attempt: Attempt | undefined) =>
    ['one', 'two', 'own'].find((secret) =>
      Object.values(attempt?.request.headers ?? {}).includes(
        createHmac('sha256', secret)
          .update(attempt?.request.body ?? '')
          .digest('hex'),
      ),
    );
  const signers = sandbox.endpoints
    .list()
    .map(({ id }) => signer(sandbox.attempts().find(({ endpointId }) => endpointId === id)));
  expect(signers).toEqual(['two', 'own', 'two']);
});

test('a save replaces the whole file, and the file gives the same state after each', async () => {
  const path = stateFile();
  const options = {
    stateFile: path,
    clock: 'manual',
    movementMs: 10,
    maxAttempts: 2,
    saveAfterMs: 60_000,
  } as const;
  const first = createSandbox({ ...options, endpoints: [{ url: 'http://127.0.0.1:1/' }] });
  first.emit('accept.confirmed');
  await first.save();
  first.redeem({ returnsAfterMs: 60_000 });
  await first.clock.advance(100);
  // Changed by hand, or half a file: the next save repairs it.
  appendFileSync(path, 'by hand');
  await first.save();
  expect(saved(path)).not.toContain('by hand');
  rmSync(path);
  await first.settled();
  await first.close();
  const second = createSandbox(options);
  expect(second.events()).toEqual(first.events());
  expect(second.deliveries()).toEqual(first.deliveries());
  expect(second.attempts()).toEqual(first.attempts());
  expect(second.movements()).toEqual(first.movements());
  await second.clock.advance(60_000);
  expect(second.movements()).toMatchObject([{ state: 'failed', reason: 'bank' }]);
  second.reset();
  await second.close();
  const third = createSandbox(options);
  expect(third.events()).toEqual([]);
  await third.close();
});

test('a draft that a crash left behind does not count', async () => {
  const path = stateFile();
  const first = createSandbox({ stateFile: path });
  const { id } = first.emit('accept.confirmed');
  await first.close();
  writeFileSync(`${path}.draft`, saved(path).replaceAll(id, 'evt_torn').slice(0, -10));
  const second = createSandbox({ stateFile: path });
  expect(second.events().map((event) => event.id)).toEqual([id]);
  await second.close();
  expect(readdirSync(join(path, '..'))).toEqual(['state.json']);
});

test('a state file that another sandbox uses is refused until that one is closed', async () => {
  const path = stateFile();
  const first = createSandbox({ stateFile: path });
  await first.save();
  const before = saved(path);
  expect(() => createSandbox({ stateFile: path })).toThrow(
    /is used by another sandbox \(process \d+\)\. Stop that one, or pass another path/,
  );
  expect(saved(path)).toBe(before);
  await first.close();
  const second = createSandbox({ stateFile: path });
  // The file is not its own any more.
  await first.close();
  expect(() => createSandbox({ stateFile: path })).toThrow(/is used by another sandbox/);
  await second.close();
  expect(readdirSync(join(path, '..'))).toEqual(['state.json']);
});

test('the lock of a process that has ended, or of this id in another container, is taken over', async () => {
  const path = stateFile();
  const { pid } = spawnSync(process.execPath, ['--version']);
  for (const owner of [pid, process.pid]) {
    writeFileSync(`${path}.lock`, `${owner}\n`);
    const sandbox = createSandbox({ stateFile: path });
    expect(readFileSync(`${path}.lock`, 'utf8')).toBe(`${process.pid}\n`);
    await sandbox.close();
    expect(readdirSync(join(path, '..'))).toEqual(['state.json']);
  }
  for (const owner of [`${process.ppid}\n`, '']) {
    writeFileSync(`${path}.lock`, owner);
    expect(() => createSandbox({ stateFile: path })).toThrow(/is used by another sandbox.*remove .*\.lock/);
    expect(() => createSandbox({ stateFile: path })).not.toThrow(/NaN/);
  }
});

/** Runs something as a user who may do only what the permissions say. */
function asUser<Result>(run: () => Result): Result {
  if (process.geteuid?.() !== 0) return run();
  process.seteuid?.(65_534);
  try {
    return run();
  } finally {
    process.seteuid?.(0);
  }
}

test('a path that cannot be a state file is refused at the start with what to do', () => {
  const folder = join(stateFile(), '..');
  chmodSync(folder, 0o777);
  const at = (...names: string[]) => join(folder, ...names);
  mkdirSync(at('sealed'), { mode: 0o555 });
  writeFileSync(at('note.txt'), 'a note');
  chmodSync(at('note.txt'), 0o666);
  writeFileSync(at('read-only.json'), '{}');
  chmodSync(at('read-only.json'), 0o444);
  for (const [path, says] of [
    [at('missing', 'state.json'), /needs the folder .*missing, which does not exist. Create it/],
    [at('note.txt', 'state.json'), /needs the folder .*note\.txt, which does not exist/],
    [at('note.txt', 'deep', 'state.json'), /needs the folder/],
    [at('sealed'), /is a folder. Pass a file in it/],
    [at('sealed', 'state.json'), /cannot be written: this user cannot write to its folder/],
    [at('read-only.json'), /cannot be read and written by this user. Check its permissions/],
    ['/dev/null', /is not a regular file/],
    [at('note.txt'), /is not a state file/],
  ] as const) {
    if (path === '/dev/null' && !existsSync(path)) continue;
    const start = () => asUser(() => createSandbox({ stateFile: path }));
    expect(start).toThrow(says);
    expect(start).toThrow(path);
  }
  expect(readdirSync(folder).sort()).toEqual(['note.txt', 'read-only.json', 'sealed']);
  expect(readFileSync(at('note.txt'), 'utf8')).toBe('a note');
});

test('an event that was not saved before a crash does not give its id to another one', async () => {
  const path = stateFile();
  const first = createSandbox({ stateFile: path, clock: 'manual' });
  first.emit('transfer.settled');
  await first.close();
  const saved = readFileSync(path);
  const second = createSandbox({ stateFile: path, clock: 'manual' });
  const { id } = second.emit('transfer.settled');
  await second.close();
  writeFileSync(path, saved);
  const third = createSandbox({ stateFile: path, clock: 'manual' });
  expect(third.emit('redeem.failed').id).not.toBe(id);
  expect(third.events()).toHaveLength(2);
  await third.close();
});
