import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createIdTable } from '../../src/reconcile/id-table.js';

/** Short ids collide often; others are long, or have characters that take more than a byte. */
const id = fc.oneof(
  fc.string({ minLength: 1, maxLength: 2 }),
  fc.string({ unit: 'binary', minLength: 1, maxLength: 300 }),
  fc.constantFrom('', '\u0000', '\u00ff', '\u0100', '\ud800', '\ud801', 'x'.repeat(255), 'x'.repeat(256)),
);

test('the table answers as a map does, for ids of any kind', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(id, fc.nat({ max: 2 ** 32 - 1 })), { maxLength: 300 }), (pairs) => {
      const [table, map] = [createIdTable(), new Map<string, number>()];
      for (const [key, value] of pairs) {
        expect(table.get(key)).toBe(map.get(key));
        table.set(key, value);
        map.set(key, value);
      }
      expect(table.size).toBe(map.size);
      expect(new Map(table)).toEqual(map);
    }),
  );
});

test('the table keeps every one of 50,000 ids while it grows', () => {
  const table = createIdTable();
  const count = 50_000;
  const idOf = (index: number) => `evt_${index.toString(36)}-0d0a-4f3e-9a53`;
  for (let index = 0; index < count; index += 1) table.set(idOf(index), index);
  let wrong = 0;
  for (let index = 0; index < count; index += 1) if (table.get(idOf(index)) !== index) wrong += 1;
  expect([wrong, table.size, table.get(idOf(count))]).toEqual([0, count, undefined]);
});
