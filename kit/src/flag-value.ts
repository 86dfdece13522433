/** Values as flags give them: numbers, and lists of what was given more than once. */
import { InvalidArgumentError } from 'commander';

/** Adds a value to those before: `--set a --set b`. A flag that took all that follows would take arguments, too. */
export function collect(value: string, before: readonly string[] = []): readonly string[] {
  return [...before, value];
}

/** Reads a whole number from 1. */
export function parseCount(text: string): number {
  if (/^[1-9]\d{0,9}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('Write a whole number from 1.');
}

/** Reads a whole number from 0. */
export function parseWhole(text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('Write a whole number.');
}

/** About one a day; the wait of a much lower rate is more than a timer holds. */
const LEAST_RATE = 0.000_01;

/** Reads how many a second. */
export function parseRate(text: string): number {
  const rate = Number(text);
  if (Number.isFinite(rate) && rate >= LEAST_RATE) return rate;
  throw new InvalidArgumentError('Write a number from 0.00001, such as 0.5 or 100.');
}

/** Reads a chance. */
export function parseChance(text: string): number {
  const chance = Number(text);
  if (text.trim() !== '' && chance >= 0 && chance <= 1) return chance;
  throw new InvalidArgumentError('Write a chance as a number from 0 (never) to 1 (always).');
}
