import { forwardOnly } from 'stablehooks';
import { expect, test } from 'vitest';

const order = ['accept.confirmed', 'redeem.completed', 'redeem.failed'] as const;

test('a state that comes later in the order is forward, and every state is forward of none', () => {
  const isForward = forwardOnly(order);
  expect(isForward('redeem.completed', 'redeem.failed')).toBe(true);
  expect(isForward('accept.confirmed', 'redeem.failed')).toBe(true);
  expect(isForward(null, 'accept.confirmed')).toBe(true);
  expect(isForward(undefined, 'redeem.failed')).toBe(true);
});

test('an earlier state and the same state are not forward', () => {
  const isForward = forwardOnly(order);
  expect(isForward('redeem.failed', 'redeem.completed')).toBe(false);
  expect(isForward('redeem.failed', 'redeem.failed')).toBe(false);
});

test('a state that is not in the order is refused, as the present and as the next one', () => {
  const isForward = forwardOnly(order);
  const unknown = 'redeem.paused' as 'redeem.failed';
  expect(() => isForward(null, unknown)).toThrow(/forwardOnly: `next` must be one of accept\.confirmed,/);
  expect(() => isForward(unknown, 'redeem.failed')).toThrow(/forwardOnly: `present` must be one of/);
});

test('an order of two states is enough', () => {
  const isForward = forwardOnly(['redeem.completed', 'redeem.failed']);
  expect(isForward('redeem.completed', 'redeem.failed')).toBe(true);
});

test.each([[[]], [['a']], [['a', 'a']], [['a', 1]], ['a']])('the order %j is refused', (order) => {
  expect(() => forwardOnly(order as string[])).toThrow(/forwardOnly: `order` must be a list of two or more/);
});
