import { inspect } from 'node:util';
import fc from 'fast-check';
import { EVENT_TYPES, isEventType, isKnownEvent, parseEvent, StablehooksError } from 'stablehooks';
import { describe, expect, test } from 'vitest';
import { createdAtMs } from '../../src/core/events.js';

const bytes = (value: unknown) =>
  new TextEncoder().encode(typeof value === 'string' ? value : JSON.stringify(value));

const event = {
  id: 'evt_1',
  type: 'transfer.settled',
  created_at: '2026-01-02T03:04:05Z',
  payload: { amount: '10.50' },
};

describe('parseEvent', () => {
  test.each(EVENT_TYPES)('parseEvent knows the type %s', (type) => {
    expect(parseEvent(bytes({ ...event, type }))).toEqual({ known: true, event: { ...event, type } });
  });

  test('parseEvent accepts a type that this release does not know', () => {
    const newer = { ...event, type: 'mint.completed' };
    expect(parseEvent(bytes(newer))).toEqual({ known: false, event: newer });
    expect(isKnownEvent(newer)).toBe(false);
    expect(isEventType('toString')).toBe(false);
  });

  test('parseEvent keeps keys beyond the envelope, and `delivered` where it is given', () => {
    const extra = { ...event, delivered: false, livemode: true, attempts: [1, 2] };
    expect(parseEvent(bytes(extra)).event).toEqual(extra);
  });

  test('parseEvent accepts any order of keys, white space, escapes and a byte order mark', () => {
    const text = `\ufeff{ "payload":{"b":1,"a":"\\u00e9\\/"},\n"type":"redeem.failed","id":"é","created_at":"2026-01-02T03:04:05.123456+05:30"}`;
    const parsed = parseEvent(bytes(text)).event;
    expect(parsed.payload).toEqual({ b: 1, a: 'é/' });
    expect(Object.keys(parsed)).toEqual(['payload', 'type', 'id', 'created_at']);
  });

  test('parseEvent returns any payload as JSON.parse reads it', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (payload) => {
        const text = JSON.stringify({ ...event, payload });
        expect(parseEvent(bytes(text)).event).toEqual(JSON.parse(text));
      }),
    );
  });

  test('parseEvent accepts deeply nested payloads', () => {
    const depth = 100_000;
    const text = JSON.stringify(event).replace('"10.50"', `${'['.repeat(depth)}${']'.repeat(depth)}`);
    expect(parseEvent(bytes(text)).known).toBe(true);
  });
});

describe('the limit of names', () => {
  test.each([
    ['512 ASCII characters', 'x'.repeat(512)],
    ['256 characters of two bytes', 'é'.repeat(256)],
    ['170 characters of three bytes and two of one', `${'東'.repeat(170)}xx`],
    ['128 characters of four bytes', '😀'.repeat(128)],
  ])(
    '%s, which are 512 bytes in UTF-8, are accepted as id and as type, and one more is not',
    (_name, text) => {
      expect(parseEvent(bytes({ ...event, id: text, type: text })).known).toBe(false);
      for (const field of ['id', 'type']) {
        expect(() => parseEvent(bytes({ ...event, [field]: `${text}x` }))).toThrow(StablehooksError);
      }
    },
  );
});

describe('createdAtMs', () => {
  const iso = (created_at: string) => new Date(createdAtMs({ created_at })).toISOString();

  test.each([
    ['2026-01-02T03:04:05Z', '2026-01-02T03:04:05.000Z'],
    ['2026-01-02t03:04:05.25z', '2026-01-02T03:04:05.250Z'],
    ['2026-01-02T03:04:05.123456789+05:30', '2026-01-01T21:34:05.123Z'],
  ])('createdAtMs reads %s as %s', (created_at, expected) => {
    expect(iso(created_at)).toBe(expected);
  });

  test('createdAtMs of every accepted event is a number, the same for lower case', () => {
    const two = fc.integer({ min: 0, max: 60 }).map((value) => String(value).padStart(2, '0'));
    const year = fc.integer({ min: 0, max: 9_999 }).map((value) => String(value).padStart(4, '0'));
    const fraction = fc.oneof(fc.constant(''), fc.stringMatching(/^\.[0-9]{1,40}$/));
    const offset = fc.oneof(
      fc.constant('Z'),
      fc.tuple(fc.constantFrom('+', '-'), two, two).map(([s, h, m]) => `${s}${h}:${m}`),
    );
    const accepted: number[] = [];
    fc.assert(
      fc.property(year, two, two, two, two, two, fraction, offset, (y, mo, d, h, mi, s, f, o) => {
        const created_at = `${y}-${mo}-${d}T${h}:${mi}:${s}${f}${o}`;
        try {
          parseEvent(bytes({ ...event, created_at }));
        } catch {
          return;
        }
        accepted.push(createdAtMs({ created_at }));
        expect(accepted.at(-1)).toBe(createdAtMs({ created_at: created_at.toLowerCase() }));
      }),
      { numRuns: 2_000 },
    );
    expect(accepted.length).toBeGreaterThan(5);
    expect(accepted.filter((time) => !Number.isFinite(time))).toEqual([]);
  });
});

describe('ERR_EVENT_MALFORMED', () => {
  const without = (key: keyof typeof event) => {
    const { [key]: _, ...rest } = event;
    return rest;
  };

  test.each<[string, unknown]>([
    ['an empty body', ''],
    ['not JSON', 'hello'],
    ['truncated JSON', '{"id":"evt_1"'],
    ['an array', [event]],
    ['null', 'null'],
    ['no id', without('id')],
    ['an empty id', { ...event, id: '' }],
    ['an id of 513 bytes', { ...event, id: 'x'.repeat(513) }],
    ['an id of 512 CJK characters', { ...event, id: '東'.repeat(512) }],
    ['a zero character in the id', { ...event, id: 'evt\u0000' }],
    ['a line break in the type', { ...event, type: 'a\nb' }],
    ['a lone surrogate in the id', { ...event, id: '\ud83d' }],
    ['a payload that is an array', { ...event, payload: [] }],
    ['delivered as a string', { ...event, delivered: 'true' }],
    ['a date that is not one', { ...event, created_at: 'yesterday' }],
    ['a date without an offset', { ...event, created_at: '2026-01-02T03:04:05' }],
    ['the 30th of February', { ...event, created_at: '2026-02-30T03:04:05Z' }],
    ['a leap second', { ...event, created_at: '2016-12-31T23:59:60Z' }],
  ])('parseEvent throws ERR_EVENT_MALFORMED for %s', (_name, value) => {
    expect(() => parseEvent(bytes(value))).toThrow(StablehooksError);
    expect(() => parseEvent(bytes(value))).toThrow(expect.objectContaining({ code: 'ERR_EVENT_MALFORMED' }));
  });

  test('parseEvent refuses bytes that are not UTF-8', () => {
    const text = bytes({ ...event, id: 'evt_#' });
    text[text.indexOf(0x23)] = 0xff;
    expect(() => parseEvent(text)).toThrow(/not UTF-8/);
  });

  test('ERR_EVENT_MALFORMED names the fields, or says that it is not JSON, and quotes nothing', async () => {
    const wrong = { ...event, id: { planted: 'planted' }, created_at: 'planted' };
    expect(() => parseEvent(bytes(wrong))).toThrow(/id, created_at/);
    expect(() => parseEvent(bytes('planted payload'))).toThrow(/it is not JSON/);
    expect(() => parseEvent(bytes([event]))).toThrow(/it is not an object/);
    for (const value of [wrong, '{"planted', 'planted', 'planted payload', '{"id":"planted"} x']) {
      const error: unknown = await (async () => parseEvent(bytes(value)))().catch(
        (thrown: unknown) => thrown,
      );
      expect(error).toBeInstanceOf(StablehooksError);
      expect(inspect(error)).not.toContain('planted');
    }
  });
});
