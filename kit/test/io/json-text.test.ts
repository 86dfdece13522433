import fc from 'fast-check';
import { expect, test } from 'vitest';
import { toJsonText } from '../../src/io/output.js';

/** Deeper than a call for each level can go. */
const DEPTH = 20_000;

test('a value is written as JSON.stringify writes it, with its indentation', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      expect(toJsonText(value)).toBe(JSON.stringify(value));
      expect(toJsonText(value, 2)).toBe(JSON.stringify(value, null, 2));
    }),
  );
});

test('a value that is nested too deeply for JSON.stringify is written whole, without indentation', () => {
  const before = '['.repeat(DEPTH);
  const after = ']'.repeat(DEPTH);
  const name = fc.oneof(fc.constant('__proto__'), fc.string());
  fc.assert(
    fc.property(fc.dictionary(name, fc.jsonValue()), (value) => {
      const text = `${before}${JSON.stringify(value)}${after}`;
      const deep: unknown = JSON.parse(text);
      expect(() => JSON.stringify(deep)).toThrow(RangeError);
      expect(toJsonText(deep, 2)).toBe(text);
    }),
    { numRuns: 20 },
  );
});

test('a field that is undefined is left out of a value of any depth', () => {
  const deep: unknown = JSON.parse(`${'['.repeat(DEPTH)}${']'.repeat(DEPTH)}`);
  expect(toJsonText({ id: 'evt_1', traceparent: undefined, deep })).toMatch(/^\{"id":"evt_1","deep":\[/);
});

test('what JSON cannot hold for another reason is thrown', () => {
  expect(() => toJsonText(1n)).toThrow(TypeError);
});
