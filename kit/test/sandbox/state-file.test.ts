import { createHmac } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
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
  const hollow = {
    faults: {},
    endpoints: {},
    wallets: {},
    movements: {},
    events: {},
    deliveries: {},
    money: {},
  };
  for (const text of [
    '{"secret":"hush',
    '{"version":2,"secret":"hush"}',
    '{"version":1,"wallets":{}}',
    JSON.stringify({ version: 1, seed: 1, now: 1, ...hollow }),
    JSON.stringify({ version: 1, seed: 1, now: 1, ...hollow, faults: { drop: 'hush' } }),
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

test('each attempt fails with the reason when the state file holds an invalid secret', async () => {
  const path = stateFile();
  const first = createSandbox({
    stateFile: path,
    endpoints: [{ url: 'http://127.0.0.1:1/', secret: 'own' }],
  });
  await first.close();
  writeFileSync(path, saved(path).replace('"own"', '"own "'));
  const { sandbox } = await startSandbox({ stateFile: path, maxAttempts: 1 });
  sandbox.emit('accept.confirmed');
  await sandbox.settled();
  expect(sandbox.deliveries()).toMatchObject([{ state: 'exhausted' }]);
  expect(sandbox.attempts()[0]?.error).toMatch(
    /`secret` must be a string that is not empty, without white space around it/,
  );
});
