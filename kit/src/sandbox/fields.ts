/** The kinds of field that inputs are made of, each with the words that say what it must be. */
import * as z from 'zod/mini';
import { isDecimal, isPositiveDecimal } from './decimal.js';

/** Text of 1 to 512 characters. */
export const text = z
  .string('must be a string')
  .check(z.minLength(1, 'must not be empty'), z.maxLength(512, 'must have at most 512 characters'));

/** A secret to sign with; with white space around it no receiver would take it (`core/secrets.ts`). */
export const secret = text.check(
  z.refine((value) => value === value.trim(), 'must not begin or end with white space'),
);

/** A decimal amount of zero or more, as a string. */
export const decimal = z
  .string('must be a decimal amount as a string')
  .check(z.refine(isDecimal, 'must be a decimal amount of zero or more, such as "10.50"'));

/** A decimal amount of more than zero, as a string. */
export const amount = z
  .string('must be a decimal amount as a string')
  .check(z.refine(isPositiveDecimal, 'must be a decimal amount of more than zero, such as "10.50"'));

/** A hundred years: a time that far off can still be written as a date. */
const LONGEST_MS = 100 * 366 * 86_400_000;

/** A whole number of milliseconds. */
export const milliseconds = z
  .int('must be a whole number of milliseconds')
  .check(z.minimum(0, 'must not be negative'), z.maximum(LONGEST_MS, `must be at most ${LONGEST_MS}`));

/** A list of texts. */
export const texts = z.array(text, 'must be a list of strings');

/** One of a few words. */
export function oneOf<const Words extends readonly [string, ...string[]]>(words: Words) {
  return z.enum(words, `must be one of ${words.join(', ')}`);
}
