import { expect, test } from 'vitest';
import { describeStack, keepConfidential, redact } from '../../src/io/output.js';
import { confidentialParts, hasPassword, namePlace } from '../../src/io/place.js';

test('the stack of an error has its causes and their codes, and none of their other properties', () => {
  const cause = Object.assign(new TypeError('Invalid URL'), {
    code: 'ERR_INVALID_URL',
    input: 'redis://:whsec_of_the_input@127.0.0.1',
    config: { connectionString: 'postgres://app:whsec_of_the_input@127.0.0.1/db' },
  });
  const text = describeStack(new Error('The inbox cannot be opened.', { cause }));
  expect(text).toMatch(/^Error: The inbox cannot be opened\.\n {4}at /);
  expect(text).toMatch(/\nCaused by: TypeError: Invalid URL\n {4}at .*\n?[\s\S]* \(ERR_INVALID_URL\)$/);
  expect(text).not.toContain('whsec_of_the_input');
});

test('the stack of an error that is its own cause ends', () => {
  const error = new Error('It is its own cause.');
  error.cause = error;
  expect(describeStack(error).match(/It is its own cause\./g)).toHaveLength(8);
});

test('what is confidential is redacted in messages and stacks, also with white space around it', () => {
  keepConfidential(' whsec_padded_value\n');
  expect(redact('Bearer whsec_padded_value was refused.')).toBe('Bearer [redacted] was refused.');
  expect(describeStack(new Error('connect whsec_padded_value@host'))).toMatch(
    /^Error: connect \[redacted\]@host\n/,
  );
});

test.for([
  'postgres://app:h%40nter_two@127.0.0.1/db',
  'postgres://app@127.0.0.1/db?sslmode=require&password=h%40nter_two',
  'postgres://app@127.0.0.1/db?p%61ssword=h%40nter_two&sslmode=require',
  'redis://:h%40nter_two@[127.0.0.1/0',
  'postgres://app:h%40nter_two@/db?host=/var/run/postgresql&application_name=a@b',
  'postgres:app:h%40nter_two@127.0.0.1/db',
])('nothing of the password of %s is left in a message that quotes the URL', (url) => {
  for (const part of confidentialParts(url)) keepConfidential(part);
  const text = redact(`connect ${url} failed`);
  expect(text).toBe('connect [redacted] failed');
  expect(redact('h@nter_two was refused, as h%40nter_two')).toBe('[redacted] was refused, as [redacted]');
});

test.for([
  'postgres://app:hunter_two@db/app',
  'POSTGRES://app:hunter_two@db/app',
  'postgres:app:hunter_two@db/app',
  'postgres://app:12/hunter_two@db/app',
  'postgres://app:12?hunter_two@db/app',
  'postgres://app:12#hunter_two@db/app',
  'postgres://app:hunter_two',
  'postgres://app:hunter_two@/app?host=/var/run/postgresql',
  'postgres:///app?host=/var/run/postgresql&user=app&password=hunter_two',
  'postgres://db/app?p%61ssword=hunter_two',
  'socket:/var/run/postgresql?db=app&password=hunter_two',
  'redis://:hunter_two@cache:6379/0',
  'redis://:hunter_two@/0',
  'redis://cache/0?password=hunter_two',
  'rediss://default:hunter_two@[::1]:6379',
  'payments at redis://:hunter_two@/0',
])('a password is found in %s', (text) => {
  expect(hasPassword(text)).toBe(true);
});

test('a URL that cannot be read counts as one with a password', () => {
  expect(hasPassword('postgres://app@/app?host=/var/run/postgresql')).toBe(true);
  expect(hasPassword('postgres://db:port/app')).toBe(true);
});

test.for<readonly [text: string, name: string]>([
  ['postgres://app@db:5432/app?sslmode=require', 'postgres://app@db:5432/app'],
  ['postgres:///app?host=/var/run/postgresql&user=app', 'postgres:///app'],
  ['redis://[::1]:6379/0', 'redis://[::1]:6379/0'],
  ['env:DATABASE_URL', 'env:DATABASE_URL'],
  ['/data/a:b@c?.db', '/data/a:b@c?.db'],
  ['C:\\data\\app.db', 'C:\\data\\app.db'],
  ['Payments: EU', 'Payments: EU'],
])('no password is found in %s', ([text, name]) => {
  expect(hasPassword(text)).toBe(false);
  expect(confidentialParts(text)).toEqual([]);
  expect(namePlace(text)).toBe(name);
});

test('a value that contains another one is redacted as a whole', () => {
  keepConfidential('hunter_two');
  keepConfidential('redis://:hunter_two@cache:6379/0');
  expect(redact('at redis://:hunter_two@cache:6379/0 by hunter_two')).toBe('at [redacted] by [redacted]');
});
