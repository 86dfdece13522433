import { ConfigError } from './errors.js';

export interface OptionRule<Default = unknown> {
  /** Completes the sentence "`name` must be …". */
  readonly expected: string;
  readonly accepts: (value: unknown) => boolean;
  readonly default: Default;
  readonly required?: boolean;
}

type OptionRules<Options> = { readonly [Name in keyof Required<Options>]: OptionRule };

type CheckedOptions<Options, Rules extends OptionRules<Options>> = {
  readonly [Name in keyof Required<Options>]: Rules[Name]['default'] extends undefined
    ? Options[Name]
    : Exclude<Options[Name], undefined>;
};

/** Messages never quote an option's value, which can be a secret. */
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
    throw new ConfigError(`${where}: unknown option \`${name}\`. Valid options are ${names.join(', ')}.`);
  }
  const given = options as Readonly<Record<string, unknown>>;
  const read = Object.entries<OptionRule>(rules).map(([name, rule]) => {
    const value = given[name];
    if (value === undefined && rule.required !== true) return [name, rule.default];
    if (value !== undefined && rule.accepts(value)) return [name, value];
    const found = value === '' ? ', but it is empty' : '';
    throw new ConfigError(`${where}: \`${name}\` must be ${rule.expected}${found}.`);
  });
  return Object.fromEntries(read);
}

export function required<Default>(rule: OptionRule<Default>): OptionRule<Default> {
  return { ...rule, required: true };
}

export function rule<Default = undefined>(
  expected: string,
  accepts: (value: unknown) => boolean,
  fallback?: Default,
): OptionRule<Default> {
  return { expected, accepts, default: fallback as Default };
}

/** The default maximum, 2,147,483,647, is the longest delay in ms that a timer accepts. */
export function integer<const Default extends number | undefined = undefined>(
  bounds: { readonly default?: Default; readonly min?: number; readonly max?: number } = {},
): OptionRule<Default> {
  const { min = 1, max = 2 ** 31 - 1 } = bounds;
  const accepts = (value: unknown) => Number.isInteger(value) && Number(value) >= min && Number(value) <= max;
  return rule(`an integer from ${min} to ${max}`, accepts, bounds.default);
}

export const string = <const Default extends string | undefined = undefined>(fallback?: Default) =>
  rule('a non-empty string', (value) => typeof value === 'string' && value !== '', fallback);

export const boolean = <const Default extends boolean | undefined = undefined>(fallback?: Default) =>
  rule('true or false', (value) => typeof value === 'boolean', fallback);

export function oneOf<const Default extends string | undefined = undefined>(
  values: readonly string[],
  fallback?: Default,
): OptionRule<Default> {
  return rule(
    `one of ${values.join(', ')}`,
    (value) => typeof value === 'string' && values.includes(value),
    fallback,
  );
}

export const func = <Default = undefined>(fallback?: Default) =>
  rule('a function', (value) => typeof value === 'function', fallback);

/** Also accepts an `AbortSignal` from another realm, such as a test environment that has its own globals. */
export const abortSignal = <Default = undefined>(fallback?: Default) =>
  rule('an AbortSignal', (value) => tagOf(value) === 'AbortSignal', fallback);

export const date = () =>
  rule('a valid Date', (value) => tagOf(value) === 'Date' && !Number.isNaN(Number(value)));

const tagOf = (value: unknown) => Object.prototype.toString.call(value).slice(8, -1);

export function withMethods<Default = undefined>(
  expected: string,
  methods: readonly string[],
  fallback?: Default,
): OptionRule<Default> {
  const accepts = (value: unknown) => methods.every((name) => typeof Object(value)[name] === 'function');
  return rule(expected, accepts, fallback);
}

export const inboxWith = (...methods: readonly string[]) =>
  required(withMethods('an inbox, such as sqliteInbox(db)', methods));
