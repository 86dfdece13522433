import { createSandbox } from 'stablehooks-kit/sandbox';
import { expect, onTestFinished, test } from 'vitest';

test('a pending movement and its money are kept beyond maxEvents', async () => {
  const sandbox = createSandbox({ clock: 'manual', maxEvents: 2, movementMs: 50, initialBalance: '10' });
  onTestFinished(() => sandbox.close());
  const fired: string[] = [];
  sandbox.subscribe(({ kind }) => kind === 'event.fired' && fired.push(kind));
  const limits = { perTx: '5', daily: '9' };
  const { id } = sandbox.wallets.create({ agentId: 'agent', chain: 'base', limits, allowlist: ['shop'] });
  sandbox.send(id, { amount: '5', to: 'shop', failsWith: 'compliance' });
  for (let n = 0; n < 5; n++) sandbox.accept();
  expect(sandbox.movements()).toHaveLength(6);
  await sandbox.settled();
  expect(fired).toHaveLength(6);
  expect(sandbox.wallets.get(id).balance).toBe('10');
  expect(sandbox.movements()).toMatchObject([{ state: 'confirmed' }, { state: 'confirmed' }]);
});

test.each(['reset', 'close'] as const)('a slow request is answered at a %s', async (end) => {
  const sandbox = createSandbox({ clock: 'manual', faults: { apiSlow: 1, apiSlowMs: 200 } });
  onTestFinished(() => sandbox.close());
  const headers = { authorization: `Bearer ${sandbox.token}` };
  const slow = sandbox.fetch(new Request('http://sandbox/v1/webhooks/events', { headers }));
  await sandbox[end]();
  expect((await slow).status).toBe(200);
});

test('advancing the real clock ends while new events keep arriving', async () => {
  const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
  const fetch = async () => {
    await pause(30);
    return new Response();
  };
  const sandbox = createSandbox({ settleTimeoutMs: 100, endpoints: [{ fetch }] });
  onTestFinished(() => sandbox.close());
  const traffic = setInterval(() => sandbox.emit('accept.confirmed'), 5);
  onTestFinished(() => clearInterval(traffic));
  await expect.poll(() => sandbox.attempts().length).toBeGreaterThan(0);
  await sandbox.clock.advance(1);
});
