import { expect, test } from 'vitest';
import { parseDuration, parseMoment, parseWait, toDate } from '../../src/io/settings.js';

const NOW = Date.parse('2026-11-21T10:00:00Z');

test.each([
  ['2026-01-31T12:00:00+01:00', '2026-01-31T11:00:00.000Z'],
  ['2026-01-31', '2026-01-31T00:00:00.000Z'],
  ['2h', '2026-11-21T08:00:00.000Z'],
  ['999999999999d', '1970-01-01T00:00:00.000Z'],
])('%s is the time %s', (typed, iso) => {
  expect(toDate(parseMoment(typed), NOW).toISOString()).toBe(iso);
});

test.each([
  'yesterday',
  '2026-02-31',
  '2026-02-31T00:00:00Z',
  '2026-01-31T12:00:00',
  '2026-01-31 12:00',
  '2026-01-31T12:00:00+24:00',
  '2026-01-31T24:00:00Z',
  '2026-01-31x',
])('%s is not a time', (typed) => {
  expect(() => parseMoment(typed)).toThrow('Pass a time with an offset');
});

test('a duration has a unit, and a wait is at most 24 days', () => {
  expect(['0', '500ms', '1.5h'].map(parseDuration)).toEqual([0, 500, 5_400_000]);
  for (const typed of ['', '2', '-1s', '1e3s', '5 m']) expect(() => parseDuration(typed)).toThrow('a unit');
  expect(parseWait('24d')).toBe(2_073_600_000);
  for (const typed of ['0s', '25d']) expect(() => parseWait(typed)).toThrow('from 1ms to 24d');
});
