/** The envelope's table gives the verdicts of the schema of `service.md` that it stands for. */
import fc from 'fast-check';
import { EventError, parseEvent } from 'stablehooks';
import { expect, test } from 'vitest';
import * as z from 'zod/mini';

const name = z.string().check(z.maxLength(512), z.regex(/^[^\p{Cc}\p{Cs}]+$/u));
const schema = z.object({
  id: name,
  type: name,
  created_at: z.iso.datetime({ offset: true }),
  payload: z.custom((value) => typeof value === 'object' && value !== null && !Array.isArray(value)),
  delivered: z.optional(z.boolean()),
});

/** The fields that the schema finds wrong, or none. */
function wrongBySchema(value: unknown): readonly string[] {
  const judged = z.safeParse(schema, value);
  return judged.success ? [] : [...new Set(judged.error.issues.map(({ path }) => path.join('.')))];
}

/** The fields that the message of `parseEvent` names, or none. */
function wrongByUs(value: unknown): readonly string[] {
  try {
    parseEvent(new TextEncoder().encode(JSON.stringify(value)));
    return [];
  } catch (error) {
    if (!(error instanceof EventError)) throw error;
    const named = /missing or wrong: ([a-z_, ]+)\./.exec(error.message)?.[1];
    return named?.split(', ') ?? [''];
  }
}

const pad = (length: number) => (value: number) => String(value).padStart(length, '0');
const two = fc.integer({ min: 0, max: 62 }).map(pad(2));
const zone = fc.constantFrom('Z', 'z', '', '+00:00', '-23:59', '+24:00', '+0000', '+05', ' ');
const year = fc.oneof(fc.integer({ min: 0, max: 9_999 }), fc.constantFrom(0, 4, 99, 100, 1900, 2000, 2024));

/** Near to a date-time: each part may be out of its range, and February has its leap days. */
const dateTime = fc.oneof(
  fc
    .tuple(
      year.map(pad(4)),
      fc.integer({ min: 0, max: 13 }).map(pad(2)),
      fc.integer({ min: 0, max: 32 }).map(pad(2)),
    )
    .map(([y, month, day]) => `${y}-${month}-${day}T00:00:00Z`),
  fc.tuple(two, two, two, zone).map(([h, m, s, offset]) => `2026-01-02T${h}:${m}:${s}${offset}`),
  fc.constantFrom('.', '.1', '.123456789', ',5', '').map((part) => `2026-01-02T03:04:05${part}Z`),
  fc.date({ noInvalidDate: true }).map((date) => date.toISOString()),
);

const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 8 }),
  fc.string({ unit: fc.constantFrom('a', 'é', '😀', '\u0000', '\u007f', '\u0085', '\ud800', ' ', '\n') }),
  fc.integer({ min: 510, max: 514 }).map((length) => 'x'.repeat(length)),
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

test('every value gets the verdict of the schema, down to the fields that are named', () => {
  fc.assert(
    fc.property(fc.oneof({ weight: 9, arbitrary: near }, { weight: 1, arbitrary: wild }), (made) => {
      const value: unknown = JSON.parse(JSON.stringify(made));
      expect(wrongByUs(value)).toEqual(wrongBySchema(value));
    }),
    { numRuns: 5_000 },
  );
});

test('every date of the calendar, and none beside it', () => {
  for (const y of ['0000', '0004', '0099', '0100', '1900', '2000', '2023', '2024', '9999']) {
    for (let month = 0; month <= 13; month++) {
      for (let day = 0; day <= 32; day++) {
        const created_at = `${y}-${pad(2)(month)}-${pad(2)(day)}T12:00:00Z`;
        const value = { id: 'evt_1', type: 'transfer.settled', created_at, payload: {} };
        expect([created_at, wrongByUs(value)]).toEqual([created_at, wrongBySchema(value)]);
      }
    }
  }
});
