/** The checks of options that all factories share: no misspelt name, and no number that makes no sense. */
import { ConfigError } from './errors.js';

/** What a numeric option is when it is left out, and the least and the most that it may be. */
export interface NumberRule {
  readonly default: number;
  /** @default 1 */
  readonly min?: number;
  /** @default the longest time that a timer takes (a signed 32-bit number of ms); more would fire at once */
  readonly max?: number;
}

/**
 * Refuses a table with names that nobody reads: in JavaScript a misspelt option would else mean the default.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID`, naming them and those that there are.
 */
export function assertNames(
  table: object,
  { where, names }: { readonly where: string; readonly names: readonly string[] },
): void {
  if (typeof table !== 'object' || table === null) throw new ConfigError(`${where} takes an object.`);
  const wrong = Object.keys(table).filter((name) => !names.includes(name));
  if (wrong.length > 0) {
    throw new ConfigError(`${where} does not know ${wrong.join(', ')}. It knows ${names.join(', ')}.`);
  }
}

/**
 * Reads the numeric options, each a whole number within its rule.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID`, naming the option and its bounds.
 */
export function readNumbers<Rules extends Readonly<Record<string, NumberRule>>>(
  options: { readonly [Name in keyof Rules]?: number },
  rules: Rules,
): { readonly [Name in keyof Rules]: number } {
  const read = Object.entries(rules).map(([name, { default: usual, min = 1, max = 2 ** 31 - 1 }]) => {
    const given = options[name];
    const value = given === undefined ? usual : given;
    if (Number.isInteger(value) && value >= min && value <= max) return [name, value];
    throw new ConfigError(`${name} must be a whole number from ${min} to ${max}.`);
  });
  return Object.fromEntries(read);
}
