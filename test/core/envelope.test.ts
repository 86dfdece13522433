import fc from 'fast-check';
import { isDateTime, parseEvent, StablehooksError } from 'stablehooks';
import { expect, test } from 'vitest';
import * as z from 'zod/mini';
import { atNight } from '../nightly.js';

const name = z.string().check(
  z.refine((text) => Buffer.byteLength(text) <= 512),
  z.regex(/^[^\p{Cc}\p{Cs}]+$/u),
);
const envelopeSchema = z.looseObject({
  id: name,
  type: name,
  created_at: z.stringFormat('date-time', isDateTime),
  payload: z.looseObject({}),
  delivered: z.optional(z.boolean()),
});

/** The fields that the schema finds wrong; `['']` when the value is not an object. */
function wrongBySchema(value: unknown): readonly string[] {
  const issues = z.safeParse(envelopeSchema, value).error?.issues ?? [];
  return [...new Set(issues.map(({ path }) => String(path[0] ?? '')))];
}

/** The fields that the error of `parseEvent` and its message name; `['']` when the value is not an object. */
function wrongByTable(value: unknown): readonly string[] {
  try {
    parseEvent(new TextEncoder().encode(JSON.stringify(value)));
    return [];
  } catch (error) {
    if (!(error instanceof StablehooksError)) throw error;
    const { fields = [], message } = error;
    if (fields.length === 0) return [''];
    expect(message).toContain(fields.join(', '));
    return fields;
  }
}

const pad = (length: number) => (value: number) => String(value).padStart(length, '0');
const two = fc.integer({ min: 0, max: 62 }).map(pad(2));
const zone = fc.constantFrom('Z', 'z', '', '+00:00', '-23:59', '+24:00', '+0000', '+05', ' ');
const year = fc.oneof(fc.integer({ min: 0, max: 9_999 }), fc.constantFrom(0, 4, 99, 100, 1900, 2000, 2024));

/** Almost date-times: each part can be out of its range, and February can have leap days. */
const dateTime = fc.oneof(
  fc
    .tuple(
      year.map(pad(4)),
      fc.integer({ min: 0, max: 13 }).map(pad(2)),
      fc.integer({ min: 0, max: 32 }).map(pad(2)),
    )
    .map(([y, month, day]) => `${y}-${month}-${day}T00:00:00Z`),
  fc.constantFrom(
    '2026-01-02T03:04Z',
    '2026-01-02T03:04+01:00',
    '2026-01-02T03:04:05',
    '2026-01-02 03:04:05Z',
    '2026-01-02t03:04:05z',
    '2026-01-02t03:04:60Z',
    '2026-01-02T24:00:00Z',
    '2026-01-02T23:59:60Z',
    '2026-01-02',
    '2026-1-2T03:04:05Z',
    '+002026-01-02T03:04:05Z',
    ' 2026-01-02T03:04:05Z',
    '2026-01-02T03:04:05Z\n',
  ),
  fc.tuple(two, two, two, zone).map(([h, m, s, offset]) => `2026-01-02T${h}:${m}:${s}${offset}`),
  fc.constantFrom('.', '.1', '.123456789', ',5', '').map((part) => `2026-01-02T03:04:05${part}Z`),
  fc.date({ noInvalidDate: true }).map((date) => date.toISOString()),
);

const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 8 }),
  fc.string({ unit: fc.constantFrom('a', 'é', '😀', '\u0000', '\u007f', '\u0085', '\ud800', ' ', '\n') }),
  fc.integer({ min: 510, max: 514 }).map((length) => 'x'.repeat(length)),
  // Two, three and four bytes each.
  fc.integer({ min: 254, max: 258 }).map((length) => 'é'.repeat(length)),
  fc.integer({ min: 169, max: 172 }).map((length) => '東'.repeat(length)),
  fc.integer({ min: 126, max: 130 }).map((length) => '😀'.repeat(length)),
);
const wild = fc.oneof(fc.jsonValue(), text);

const near = fc.record(
  {
    id: fc.oneof(text, wild),
    type: fc.oneof(fc.constant('transfer.settled'), text, wild),
    created_at: fc.oneof({ weight: 5, arbitrary: dateTime }, wild),
    payload: fc.oneof(fc.dictionary(fc.string(), fc.jsonValue()), wild),
    delivered: fc.oneof(fc.boolean(), wild),
  },
  { requiredKeys: [] },
);

test('parseEvent and a schema of zod give the same verdict on any value and name the same fields', () => {
  fc.assert(
    fc.property(fc.oneof({ weight: 9, arbitrary: near }, { weight: 1, arbitrary: wild }), (made) => {
      const value: unknown = JSON.parse(JSON.stringify(made));
      expect(wrongByTable(value)).toEqual(wrongBySchema(value));
    }),
    { numRuns: atNight(5_000, 1_000) },
  );
});

test("parseEvent accepts the date-times of zod's own format, and beyond them only lower case", () => {
  const format = z.iso.datetime({ offset: true });
  fc.assert(
    fc.property(dateTime, (created_at) => {
      const isAccepted =
        wrongByTable({ id: 'evt_1', type: 'transfer.settled', created_at, payload: {} }).length === 0;
      const { success } = z.safeParse(format, created_at.toUpperCase());
      expect([created_at, isAccepted]).toEqual([created_at, success]);
    }),
    { numRuns: atNight(5_000, 1_000) },
  );
});
