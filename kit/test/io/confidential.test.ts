import { expect, test } from 'vitest';
import { describeStack, keepConfidential, redact } from '../../src/io/output.js';
import { confidentialParts } from '../../src/io/place.js';

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
  'redis://:h%40nter_two@[127.0.0.1/0',
])('nothing of the password of %s is left in a message that quotes the URL', (url) => {
  for (const part of confidentialParts(url)) keepConfidential(part);
  const text = redact(`connect ${url} failed`);
  expect(text).toBe('connect [redacted] failed');
  if (URL.canParse(url)) expect(redact('h@nter_two was refused')).toBe('[redacted] was refused');
});

test('a value that contains another one is redacted as a whole', () => {
  keepConfidential('hunter_two');
  keepConfidential('redis://:hunter_two@cache:6379/0');
  expect(redact('at redis://:hunter_two@cache:6379/0 by hunter_two')).toBe('at [redacted] by [redacted]');
});
