import fc from 'fast-check';
import { createSandbox, SandboxError, type SandboxOptions } from 'stablehooks-kit/sandbox';
import { expect, test } from 'vitest';

const DAY_MS = 86_400_000;

function walletWith(perTx: string, options: SandboxOptions & { readonly daily: string }) {
  const { daily, ...rest } = options;
  const sandbox = createSandbox({ seed: 1, clock: 'manual', ...rest });
  const limits = { perTx, daily };
  const wallet = sandbox.wallets.create({ agentId: 'agent', chain: 'base', limits, allowlist: ['shop'] });
  const send = (amount: string, to = 'shop') => {
    try {
      return sandbox.send(wallet.id, { amount, to }).state;
    } catch (error) {
      if (error instanceof SandboxError) return error.code;
      throw error;
    }
  };
  return { sandbox, send, find: () => sandbox.wallets.get(wallet.id), id: wallet.id };
}

test('a send beyond a limit, the balance or the allowlist changes nothing and fires no event', () => {
  const { sandbox, send, find } = walletWith('10', { daily: '25', initialBalance: '21' });
  expect(send('10.000000000000000001')).toBe('ERR_SANDBOX_OVER_PER_TX');
  expect(send('1', 'SHOP')).toBe('ERR_SANDBOX_NOT_ALLOWED');
  expect(send('10')).toBe('settled');
  expect(send('9.5')).toBe('settled');
  expect(send('2')).toBe('ERR_SANDBOX_OVER_BALANCE');
  expect(send('5.51')).toBe('ERR_SANDBOX_OVER_DAILY');
  for (const amount of ['0', '-1', '1e1', '.5', '']) expect(send(amount)).toBe('ERR_SANDBOX_INPUT');
  expect(find()).toMatchObject({ balance: '1.5', spentToday: '19.5' });
  expect(sandbox.events().map(({ type }) => type)).toEqual(['transfer.settled', 'transfer.settled']);
});

test('the daily limit counts one UTC day of the sandbox clock', async () => {
  const { sandbox, send } = walletWith('10', { daily: '10' });
  expect(send('10')).toBe('settled');
  await sandbox.clock.advance(DAY_MS - 1);
  expect(send('1')).toBe('ERR_SANDBOX_OVER_DAILY');
  await sandbox.clock.advance(1);
  expect(send('10')).toBe('settled');
});

test('a failed transfer restores the balance and the daily limit', async () => {
  const { sandbox, find, id } = walletWith('10', { daily: '10', movementMs: 1000, initialBalance: '10' });
  const { state } = sandbox.send(id, { amount: '10', to: 'shop', failsWith: 'submission' });
  expect(state).toBe('pending');
  expect(find()).toMatchObject({ balance: '0', spentToday: '10' });
  await sandbox.settled();
  expect(find()).toMatchObject({ balance: '10', spentToday: '0' });
  expect(sandbox.events()).toMatchObject([{ type: 'transfer.failed', payload: { reason: 'submission' } }]);
});

test('an accept credits its wallet', () => {
  const { sandbox, find, id } = walletWith('10', { daily: '10', initialBalance: '0.10' });
  sandbox.accept({ walletId: id, amount: '0.20' });
  expect(find().balance).toBe('0.30');
});

const SCALE = 6;
const amount = fc
  .tuple(fc.bigInt({ min: 1n, max: 10n ** 20n }), fc.integer({ min: 0, max: SCALE }))
  .map(([units, scale]) => {
    const digits = units.toString().padStart(scale + 1, '0');
    return scale === 0 ? digits : `${digits.slice(0, -scale)}.${digits.slice(-scale)}`;
  });

function toUnits(text: string): bigint {
  const [whole = '0', fraction = ''] = text.split('.');
  return BigInt(whole + fraction.padEnd(SCALE, '0'));
}

test('limits and balances are computed exactly for any amounts', () => {
  fc.assert(
    fc.property(amount, amount, fc.array(amount, { maxLength: 8 }), (perTx, daily, amounts) => {
      const initialBalance = daily;
      const { send, find } = walletWith(perTx, { daily, initialBalance });
      let spent = 0n;
      for (const one of amounts) {
        const units = toUnits(one);
        const fits = units <= toUnits(perTx) && spent + units <= toUnits(daily);
        expect(send(one) === 'settled').toBe(fits);
        if (fits) spent += units;
      }
      expect(toUnits(find().balance)).toBe(toUnits(initialBalance) - spent);
    }),
  );
});
