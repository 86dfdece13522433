import fc from 'fast-check';
import { EVENT_TYPES, EventError, isEventType, isKnownEvent, parseEvent } from 'stablehooks';
import { describe, expect, test } from 'vitest';

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

  test('`__proto__` in a payload does not change Object.prototype', () => {
    const text = JSON.stringify(event).replace('{"amount"', '{"__proto__":{"polluted":true},"amount"');
    const { payload } = parseEvent(bytes(text)).event;
    expect(Object.hasOwn(payload, '__proto__')).toBe(true);
    expect(Object.getPrototypeOf(payload)).toBe(Object.prototype);
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
  });

  test('parseEvent accepts deeply nested payloads', () => {
    const depth = 100_000;
    const text = JSON.stringify(event).replace('"10.50"', `${'['.repeat(depth)}${']'.repeat(depth)}`);
    expect(parseEvent(bytes(text)).known).toBe(true);
  });

  test.each([
    ['2026-01-02T03:04:05Z'],
    ['2026-01-02T03:04:05.1Z'],
    ['2026-01-02T03:04:05.123456789Z'],
    ['2026-01-02T03:04:05+00:00'],
    ['2024-02-29T23:59:59-12:00'],
  ])('parseEvent accepts the RFC 3339 date-time %s', (created_at) => {
    expect(parseEvent(bytes({ ...event, created_at })).event.created_at).toBe(created_at);
  });
});

describe('ERR_EVENT_MALFORMED', () => {
  const without = (key: keyof typeof event) => {
    const { [key]: _, ...rest } = event;
    return rest;
  };

  test.each<[string, unknown]>([
    ['an empty body', ''],
    ['white space', '  \n'],
    ['not JSON', 'hello'],
    ['truncated JSON', '{"id":"evt_1"'],
    ['two JSON values', '{}{}'],
    ['an array', [event]],
    ['null', 'null'],
    ['a string', '"evt_1"'],
    ['a number', '7'],
    ['no id', without('id')],
    ['no type', without('type')],
    ['no created_at', without('created_at')],
    ['no payload', without('payload')],
    ['a number as id', { ...event, id: 1 }],
    ['an empty id', { ...event, id: '' }],
    ['an id of 513 characters', { ...event, id: 'x'.repeat(513) }],
    ['a zero character in the id', { ...event, id: 'evt\u0000' }],
    ['a line break in the type', { ...event, type: 'a\nb' }],
    ['a lone surrogate in the id', { ...event, id: '\ud83d' }],
    ['an empty type', { ...event, type: '' }],
    ['null as type', { ...event, type: null }],
    ['a payload that is a string', { ...event, payload: '{}' }],
    ['a payload that is an array', { ...event, payload: [] }],
    ['a payload that is null', { ...event, payload: null }],
    ['delivered as a string', { ...event, delivered: 'true' }],
    ['a date that is a number', { ...event, created_at: 1_767_323_045 }],
    ['a date that is not one', { ...event, created_at: 'yesterday' }],
    ['a date without a time', { ...event, created_at: '2026-01-02' }],
    ['a date without an offset', { ...event, created_at: '2026-01-02T03:04:05' }],
    ['the 30th of February', { ...event, created_at: '2026-02-30T03:04:05Z' }],
    ['the 25th hour', { ...event, created_at: '2026-01-02T25:04:05Z' }],
  ])('parseEvent throws ERR_EVENT_MALFORMED for %s', (_name, value) => {
    expect(() => parseEvent(bytes(value))).toThrow(EventError);
    expect(() => parseEvent(bytes(value))).toThrow(expect.objectContaining({ code: 'ERR_EVENT_MALFORMED' }));
  });

  test('parseEvent refuses bytes that are not UTF-8', () => {
    const text = bytes({ ...event, id: 'evt_#' });
    text[text.indexOf(0x23)] = 0xff;
    expect(() => parseEvent(text)).toThrow(/not UTF-8/);
  });

  test('ERR_EVENT_MALFORMED names the fields and never their values', () => {
    const wrong = { ...event, id: { planted: 'planted' }, created_at: 'planted' };
    expect(() => parseEvent(bytes(wrong))).toThrow(/id, created_at/);
    for (const value of [wrong, '{"planted', 'planted', '{"id":"planted"} x']) {
      const error = (() => {
        try {
          return parseEvent(bytes(value));
        } catch (thrown) {
          return thrown as Error;
        }
      })();
      expect(error).toBeInstanceOf(EventError);
      expect(`${(error as Error).stack}${String((error as Error).cause)}`).not.toContain('planted');
    }
  });
});
