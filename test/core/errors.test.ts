import { inspect } from 'node:util';
import { ConfigError, PermanentError, StablehooksError } from 'stablehooks';
import { expect, test } from 'vitest';

test('an error is an instance of its class and of the base, and has the name of its class', () => {
  const error = new PermanentError('the account was closed');
  expect(error).toBeInstanceOf(StablehooksError);
  expect(error).not.toBeInstanceOf(ConfigError);
  expect(error.name).toBe('PermanentError');
});

test('a log of an error shows its code, which cannot be changed', () => {
  const error = new ConfigError('x');
  expect(inspect(error)).toContain("code: 'ERR_CONFIG_INVALID'");
  expect(() => Object.assign(error, { code: 'ERR_OTHER' })).toThrow(TypeError);
});
