import fc from 'fast-check';
import { normalizeAmount, sameAmount } from 'stablehooks/reconcile';
import { expect, test } from 'vitest';
import { addAmounts } from '../../src/reconcile/amount.js';

test.each([
  [['1.50', '1.5', '+1.500', '01.5'], '1.5'],
  [['0', '-0', '0.00', '+0'], '0'],
  [['-0.10', '-.10', '-00.1'].toSpliced(1, 1), '-0.1'],
  [['100', '100.0'], '100'],
  [['1'.repeat(1_000)], '1'.repeat(1_000)],
  [
    ['123456789012345678901234567890.000000000000000001'],
    '123456789012345678901234567890.000000000000000001',
  ],
])('%j are the same amount', (texts, normal) => {
  for (const text of texts) expect(normalizeAmount(text)).toBe(normal);
});

test.each([
  '',
  ' 1',
  '1e3',
  '1,000',
  '1.',
  '.5',
  '0x1',
  'NaN',
  'Infinity',
  '--1',
  '1 USD',
  '١',
  '1'.repeat(1_001),
])('%j is not an amount', (text) => {
  expect(normalizeAmount(text)).toBeUndefined();
  expect(addAmounts('1', text)).toBeUndefined();
  expect(addAmounts(text, '1')).toBeUndefined();
});

test('a number is not an amount, because it can have been rounded already', () => {
  expect(normalizeAmount(1.5)).toBeUndefined();
});

test('sums are exact, in any order, for any precision', () => {
  const amount = fc
    .tuple(fc.bigInt({ min: -(10n ** 30n), max: 10n ** 30n }), fc.integer({ min: 0, max: 20 }))
    .map(([units, scale]) => {
      const digits = String(units < 0n ? -units : units).padStart(scale + 1, '0');
      const cut = digits.length - scale;
      const text = scale === 0 ? digits : `${digits.slice(0, cut)}.${digits.slice(cut)}`;
      return { text: `${units < 0n ? '-' : ''}${text}`, value: units * 10n ** BigInt(20 - scale) };
    });
  /** In units of 10⁻²⁰. */
  const toUnits = (text = '') => {
    const [whole = '', fraction = ''] = text.replace('-', '').split('.');
    const value = BigInt(whole + fraction.padEnd(20, '0'));
    return text.startsWith('-') ? -value : value;
  };
  fc.assert(
    fc.property(amount, amount, (a, b) => {
      expect(toUnits(addAmounts(a.text, b.text))).toBe(a.value + b.value);
      expect(addAmounts(a.text, b.text)).toBe(addAmounts(b.text, a.text));
    }),
  );
});

test.each([
  ['10.50', '+010.5', true],
  ['-0', '0.00', true],
  ['10.50', '10.51', false],
  ['1000', '1,000', false],
])('sameAmount of %j and %j is %j', (a, b, same) => {
  expect(sameAmount(a, b)).toBe(same);
  expect(sameAmount(b, a)).toBe(same);
});

test.each([undefined, null, 10.5, '1,000', '1e3', '', '1'.repeat(1_001)])(
  '%j is the same amount as nothing, not even as itself',
  (value) => {
    expect(sameAmount(value, value)).toBe(false);
    expect(sameAmount(value, '10.5')).toBe(false);
    expect(sameAmount('10.5', value)).toBe(false);
  },
);
