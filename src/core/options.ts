/** The options checker of every factory: refuses unknown names and values that make no sense, fills in defaults. */
import { ConfigError } from './errors.js';

/** The rule of one option. */
export interface OptionRule<Default = unknown> {
  /** Completes the sentence "`name` must be …". */
  readonly expected: string;
  readonly accepts: (value: unknown) => boolean;
  /** The value of an option that is not given; `undefined` for none. */
  readonly default: Default;
  readonly required?: boolean;
}

/** One rule for each option: the compiler keeps the table complete. */
type OptionRules<Options> = { readonly [Name in keyof Required<Options>]: OptionRule };

/** The options as they are after the check. */
type CheckedOptions<Options, Rules extends OptionRules<Options>> = {
  readonly [Name in keyof Required<Options>]: Rules[Name]['default'] extends undefined
    ? Options[Name]
    : Exclude<Options[Name], undefined>;
};

/**
 * Checks options against their rules and fills in the defaults. An option that is `undefined` is not given.
 *
 * @param where - what the options belong to, such as `createReceiver`; it begins every message.
 * @throws {ConfigError} `ERR_CONFIG_INVALID`, naming the option and never its value.
 */
export function readOptions<const Options extends object, const Rules extends OptionRules<Options>>(
  where: string,
  options: Options,
  rules: Rules,
): CheckedOptions<Options, Rules> {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw new ConfigError(`${where}: the options must be an object.`);
  }
  const names = Object.keys(rules);
  for (const name of Object.keys(options)) {
    if (names.includes(name)) continue;
    throw new ConfigError(`${where}: unknown option \`${name}\`. The options are ${names.join(', ')}.`);
  }
  const given = options as Readonly<Record<string, unknown>>;
  const read = Object.entries<OptionRule>(rules).map(([name, rule]) => {
    const value = given[name];
    if (value === undefined && rule.required !== true) return [name, rule.default];
    if (value !== undefined && rule.accepts(value)) return [name, value];
    throw new ConfigError(`${where}: \`${name}\` must be ${rule.expected}.`);
  });
  return Object.fromEntries(read);
}

/**
 * Checks an argument that must be a receiver with this method.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID`
 */
export function assertReceiver(where: string, receiver: object, method: string): void {
  const receiverRule = withMethods('a receiver, which createReceiver makes', [method]);
  readOptions(where, { receiver }, { receiver: required(receiverRule) });
}

/** The option must be given. */
export function required<Default>(rule: OptionRule<Default>): OptionRule<Default> {
  return { ...rule, required: true };
}

/** A rule of the factory's own. */
export function rule<Default = undefined>(
  expected: string,
  accepts: (value: unknown) => boolean,
  fallback?: Default,
): OptionRule<Default> {
  return { expected, accepts, default: fallback as Default };
}

/** An integer; by default from 1 to the longest time that a timer takes (a signed 32-bit number of ms). */
export function integer<const Default extends number | undefined = undefined>(
  bounds: { readonly default?: Default; readonly min?: number; readonly max?: number } = {},
): OptionRule<Default> {
  const { min = 1, max = 2 ** 31 - 1 } = bounds;
  return {
    expected: `an integer from ${min} to ${max}`,
    accepts: (value) => Number.isInteger(value) && Number(value) >= min && Number(value) <= max,
    default: bounds.default as Default,
  };
}

/** A string that is not empty. */
export function string<const Default extends string | undefined = undefined>(
  fallback?: Default,
): OptionRule<Default> {
  return {
    expected: 'a string that is not empty',
    accepts: (value) => typeof value === 'string' && value !== '',
    default: fallback as Default,
  };
}

/** `true` or `false`. */
export function boolean<const Default extends boolean | undefined = undefined>(
  fallback?: Default,
): OptionRule<Default> {
  return {
    expected: 'true or false',
    accepts: (value) => typeof value === 'boolean',
    default: fallback as Default,
  };
}

/** One of these strings. */
export function oneOf<const Default extends string | undefined = undefined>(
  values: readonly string[],
  fallback?: Default,
): OptionRule<Default> {
  return {
    expected: `one of ${values.join(', ')}`,
    accepts: (value) => typeof value === 'string' && values.includes(value),
    default: fallback as Default,
  };
}

/** A function. */
export function func<Default = undefined>(fallback?: Default): OptionRule<Default> {
  return {
    expected: 'a function',
    accepts: (value) => typeof value === 'function',
    default: fallback as Default,
  };
}

/** An `AbortSignal`. */
export function abortSignal<Default = undefined>(fallback?: Default): OptionRule<Default> {
  return rule('an AbortSignal', (value) => value instanceof AbortSignal, fallback);
}

/** A valid `Date`. */
export function date(): OptionRule<undefined> {
  return rule('a valid Date', (value) => value instanceof Date && !Number.isNaN(value.getTime()));
}

/**
 * An object or function with these methods.
 *
 * @param expected - what has them, such as "an inbox, such as memoryInbox()".
 */
export function withMethods<Default = undefined>(
  expected: string,
  methods: readonly string[],
  fallback?: Default,
): OptionRule<Default> {
  return {
    expected,
    accepts: (value) => methods.every((name) => typeof memberOf(value, name) === 'function'),
    default: fallback as Default,
  };
}

function memberOf(value: unknown, name: string): unknown {
  const isContainer = (typeof value === 'object' && value !== null) || typeof value === 'function';
  return isContainer ? (value as Readonly<Record<string, unknown>>)[name] : undefined;
}

/**
 * A value, or a function that gives it at its first use, so that a build (such as `next build`) needs neither secrets
 * nor connections.
 */
export type Lazy<Value> = Value | (() => Value);

/** The rule of a {@link Lazy} option: a function passes, and what it gives is checked when it is called. */
export function lazyRule<Default>(rule: OptionRule<Default>): OptionRule<Default> {
  return {
    ...rule,
    expected: `${rule.expected}, or a function that gives it`,
    accepts: (value) => typeof value === 'function' || rule.accepts(value),
  };
}

/**
 * Replaces each {@link Lazy} option that is a function by a property that calls it at the first read, checks what it
 * gives, and keeps it. A function that fails is called again at the next read. Other values stay as they are.
 *
 * @param where - what the options belong to, such as `createReceiver`.
 * @param target - an object of the caller's own; it is changed. To spread it calls the functions.
 * @param rules - the rules of what the functions give.
 * @throws {ConfigError} `ERR_CONFIG_INVALID`, at the read.
 */
export function defineLazy<
  Target extends object,
  Rules extends { readonly [Name in keyof Target]?: OptionRule },
>(
  where: string,
  target: Target,
  rules: Rules,
): {
  readonly [Name in keyof Target]: Name extends keyof Rules
    ? Exclude<Target[Name], () => unknown>
    : Target[Name];
} {
  for (const [name, rule] of Object.entries(rules as Readonly<Record<string, OptionRule>>)) {
    const given: unknown = target[name as keyof Target];
    if (typeof given !== 'function') continue;
    let known: { readonly value: unknown } | undefined;
    const get = () => {
      known ??= { value: callLazy(`${where}: \`${name}\``, given as () => unknown, rule) };
      return known.value;
    };
    Object.defineProperty(target, name, { get, enumerable: true });
  }
  return target as never;
}

function callLazy(name: string, give: () => unknown, { expected, accepts }: OptionRule): unknown {
  let value: unknown;
  try {
    value = give();
  } catch (cause) {
    if (cause instanceof ConfigError) throw cause;
    throw new ConfigError(`${name}: the function that gives it failed; see the cause.`, { cause });
  }
  if (accepts(value)) return value;
  throw new ConfigError(`${name} must be ${expected}; its function gave something else.`);
}
