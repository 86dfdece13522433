import { ConfigError, StablehooksError } from 'stablehooks';
import { createClient } from 'stablehooks/client';
import { expect, test } from 'vitest';
import { describeBody, toFailure, toInboxError } from '../../src/io/errors.js';

test('a wrong option is wrong use', () => {
  const message = 'createPoller: `lagMs` must be an integer from 1.';
  expect(toFailure(new ConfigError(message))).toEqual({ exitCode: 2, message });
});

test('a request that the platform refuses is exit 3, with the reason', async () => {
  const client = createClient({ baseUrl: 'http://127.0.0.1:9', token: 'token', retries: 0 });
  const error = await client.events.list().catch((thrown: unknown) => thrown);
  expect(toFailure(error)).toEqual({
    exitCode: 3,
    message: expect.stringMatching(/got no complete response.*\(bad port\)$/),
  });
});

test('a host name that a sandbox does not know is not a refused token, and the message says what to do', async () => {
  const problem = { code: 'ERR_SANDBOX_HOST', detail: 'Pass --allow-host sandbox.test.' };
  const fetch = async () => Response.json(problem, { status: 403 });
  const client = createClient({ baseUrl: 'http://sandbox.test', token: 'token', fetch });
  const error = await client.events.list().catch((thrown: unknown) => thrown);
  expect(toFailure(error)).toEqual({ exitCode: 2, message: expect.stringContaining(problem.detail) });
});

test('an error is one line without control characters, whoever wrote its message', () => {
  expect(toFailure(new Error('no\n\u009b2Ksuch\u202e table')).message).toMatch(/^no ·2Ksuch· table /);
});

test('of a problem the detail is printed, and the fields that it does not name', () => {
  const errors = [{ field: 'limits.daily', detail: 'must be an amount' }];
  expect(describeBody(JSON.stringify({ detail: 'Nothing was changed.', errors }))).toBe(
    'Nothing was changed. limits.daily must be an amount.',
  );
  expect(describeBody('{"detail":5}')).toBe('{"detail":5}');
  expect(describeBody(' down\u001b[2J ')).toBe('down·[2J');
});

test('an untrusted certificate names NODE_EXTRA_CA_CERTS, and is exit 3', () => {
  const cause = Object.assign(new Error('self-signed certificate'), { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' });
  const { exitCode, message } = toFailure(new TypeError('fetch failed', { cause }));
  expect(message).toMatch(/NODE_EXTRA_CA_CERTS .*\(DEPTH_ZERO_SELF_SIGNED_CERT\)$/);
  expect(exitCode).toBe(3);
});

test('whatever the driver of an inbox throws is exit 3 with its message and code, also below errors of the packages', () => {
  const locked = Object.assign(new Error('could not obtain lock'), { code: '55P03' });
  const expected = {
    exitCode: 3,
    message: 'The inbox failed: could not obtain lock (55P03). Check the inbox, then try again.',
  };
  expect(toFailure(toInboxError(locked))).toEqual(expected);
  const wrapped = new StablehooksError('ERR_INBOX_FAILED', 'The inbox failed; see the cause.', {
    cause: toInboxError(locked),
  });
  expect(toFailure(wrapped)).toEqual(expected);
  expect(toFailure(toInboxError(new ConfigError('sqliteInbox: see the cause.', { cause: locked })))).toEqual(
    expected,
  );
  expect(toFailure(toInboxError('closed')).message).toMatch(/^The inbox failed: closed\. /);
});

test('what the packages refuse on their own stays wrong use when an inbox throws it', () => {
  const refused = new ConfigError('redisInbox: `prefix` must be a string without braces.');
  expect(toInboxError(refused)).toBe(refused);
});
