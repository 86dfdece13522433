import { inspect } from 'node:util';
import { ConfigError, PermanentError, RetryLater, SignatureError, StablehooksError } from 'stablehooks';
import { expect, test } from 'vitest';

test('an error is an instance of its class and of the base, and has the name of its class', () => {
  const errors = {
    ConfigError: new ConfigError('x'),
    PermanentError: new PermanentError('the account was closed'),
    RetryLater: new RetryLater({ afterMs: 1, reason: 'no order yet' }),
    SignatureError: new SignatureError('ERR_SIGNATURE_MISSING', 'x'),
    StablehooksError: new StablehooksError('ERR_INBOX_FAILED', 'x'),
  };
  for (const [name, error] of Object.entries(errors)) {
    expect(error).toBeInstanceOf(StablehooksError);
    expect(error.name).toBe(name);
  }
  expect(errors.PermanentError).not.toBeInstanceOf(ConfigError);
});

test('a log of an error shows its code, which cannot be changed', () => {
  const error = new ConfigError('x');
  expect(inspect(error)).toContain("code: 'ERR_CONFIG_INVALID'");
  expect(() => Object.assign(error, { code: 'ERR_OTHER' })).toThrow(TypeError);
});
