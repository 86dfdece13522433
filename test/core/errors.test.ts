/** `instanceof` of the errors, with two copies of the package in one process. */
import { expect, test, vi } from 'vitest';

async function load() {
  vi.resetModules();
  return { ...(await import('stablehooks')), ...(await import('stablehooks/client')) };
}

const one = await load();
const other = await load();

/** One error of each class, made by a copy of the package. */
const errorsOf = (copy: typeof one) => {
  const line = { method: 'GET', url: 'http://localhost/events' };
  const answer = { status: 500, headers: new Headers(), body: '', retryAfterMs: undefined };
  return {
    SignatureError: new copy.SignatureError('ERR_SIGNATURE_MISSING', 'x'),
    RequestError: new copy.RequestError('ERR_BODY_ENCODED', 'x'),
    EventError: new copy.EventError('ERR_EVENT_MALFORMED', 'x'),
    HandlerError: new copy.HandlerError('ERR_HANDLER_FAILED', 'x'),
    PermanentError: new copy.PermanentError('x'),
    BusyError: new copy.BusyError('ERR_KEY_BUSY', 'x', { retryAfterMs: 1 }),
    UnavailableError: new copy.UnavailableError('ERR_INBOX_FAILED', 'x'),
    ConfigError: new copy.ConfigError('x'),
    ApiError: new copy.ApiError('x', { ...line, ...answer, requestId: undefined }),
    ConnectionError: new copy.ConnectionError('x', { ...line, unsent: false }),
    ResponseError: new copy.ResponseError('x', { ...line, fields: [], requestId: undefined, answer: null }),
  };
};

const NAMES = Object.keys(errorsOf(one)) as (keyof ReturnType<typeof errorsOf>)[];

test('the two copies have different classes, and these are all of their errors', () => {
  const classes = Object.keys(one).filter((name) => name.endsWith('Error'));
  expect(classes.sort()).toEqual([...NAMES, 'StablehooksError'].sort());
  for (const name of NAMES) expect(one[name]).not.toBe(other[name]);
});

test.each(NAMES)(
  'a %s of one copy is an instance of that class and of the base in the other copy, and of no third',
  (name) => {
    for (const [maker, reader] of [
      [one, other],
      [one, one],
    ] as const) {
      const error = errorsOf(maker)[name];
      const classes = [...NAMES, 'StablehooksError' as const].filter((each) => error instanceof reader[each]);
      expect(classes).toEqual([name, 'StablehooksError']);
      expect(error).toBeInstanceOf(Error);
    }
  },
);

test.each(NAMES)('a %s has the name of its class', (name) => {
  expect(errorsOf(one)[name].name).toBe(name);
});

test('a PermanentError has the code ERR_HANDLER_PERMANENT, and an EventError the fields that it was given, or none', () => {
  expect(new one.PermanentError('x').code).toBe('ERR_HANDLER_PERMANENT');
  expect(new one.EventError('ERR_PAYLOAD_INVALID', 'x').fields).toEqual([]);
  expect(new one.EventError('ERR_PAYLOAD_INVALID', 'x', { fields: ['payload.a'] }).fields).toEqual([
    'payload.a',
  ]);
});

test('what cannot be read is an instance of no error', () => {
  const unreadable = new Proxy(
    {},
    {
      get() {
        throw new Error('unreadable');
      },
    },
  );
  for (const value of [unreadable, null, undefined, 'x', {}]) {
    expect(NAMES.filter((name) => (value as unknown) instanceof one[name])).toEqual([]);
  }
});

test('an instance of a class that extends an error is known by its own class and by what it extends, in both copies', () => {
  class Closed extends one.PermanentError {}
  class Renamed extends other.PermanentError {}
  const closed = new Closed('x');
  expect(closed).toBeInstanceOf(Closed);
  for (const { PermanentError, StablehooksError, ConfigError } of [one, other]) {
    expect(closed).toBeInstanceOf(PermanentError);
    expect(closed).toBeInstanceOf(StablehooksError);
    expect(closed).not.toBeInstanceOf(ConfigError);
    expect(new PermanentError('x')).not.toBeInstanceOf(Closed);
  }
  expect(closed).not.toBeInstanceOf(Renamed);
});

test.each([
  ['undefined', undefined],
  ['null', null],
  ['a string', 'ERR_CONFIG_INVALID'],
  [
    'an error with a code of ours',
    Object.assign(new Error('x'), { code: 'ERR_CONFIG_INVALID', name: 'ConfigError' }),
  ],
  ['an object that answers every property with an object', new Proxy({}, { get: () => ({}) })],
  [
    'an object that cannot be read',
    new Proxy(
      {},
      {
        get: () => {
          throw new Error('no');
        },
      },
    ),
  ],
])('%s is an instance of no error of the package', (_, value) => {
  expect([...NAMES, 'StablehooksError' as const].filter((name) => value instanceof one[name])).toEqual([]);
});

test('a log of an error shows its code, and not how the copies know it', async () => {
  const { inspect } = await import('node:util');
  const text = inspect(new one.ConfigError('x'));
  expect(text).toContain("code: 'ERR_CONFIG_INVALID'");
  expect(text).not.toMatch(/className|Symbol/);
});
