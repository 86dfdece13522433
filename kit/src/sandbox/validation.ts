import { ConfigError, StablehooksError } from 'stablehooks';
import * as z from 'zod/mini';

const STATUSES = {
  ERR_SANDBOX_INPUT: 400,
  ERR_SANDBOX_TOKEN: 401,
  ERR_SANDBOX_HOST: 403,
  ERR_SANDBOX_OTHER_SITE: 403,
  ERR_SANDBOX_NOT_FOUND: 404,
  ERR_SANDBOX_METHOD: 405,
  ERR_SANDBOX_STATE: 409,
  ERR_SANDBOX_BODY_TOO_LARGE: 413,
  ERR_SANDBOX_MEDIA_TYPE: 415,
  ERR_SANDBOX_OVER_PER_TX: 422,
  ERR_SANDBOX_OVER_DAILY: 422,
  ERR_SANDBOX_OVER_BALANCE: 422,
  ERR_SANDBOX_NOT_ALLOWED: 422,
  ERR_SANDBOX_BUSY: 429,
  ERR_SANDBOX_FAILED: 500,
} as const;

export type SandboxErrorCode = keyof typeof STATUSES;

/** A missing or invalid field, such as `limits.perTx`, and what is wrong with it. Never contains the field's value. */
export interface FieldError {
  readonly field: string;
  readonly detail: string;
}

/**
 * Thrown when the sandbox rejects a request. A rejected request changes nothing. Over HTTP, the error is sent as an
 * `application/problem+json` response.
 */
export class SandboxError extends StablehooksError<SandboxErrorCode> {
  override readonly name = 'SandboxError';
  /** The HTTP status that belongs to the code. */
  readonly status: (typeof STATUSES)[SandboxErrorCode];
  readonly errors: readonly FieldError[];

  constructor(
    code: SandboxErrorCode,
    message: string,
    options: ErrorOptions & { readonly errors?: readonly FieldError[] | undefined } = {},
  ) {
    super(code, message, options);
    this.status = STATUSES[code];
    this.errors = options.errors ?? [];
  }
}

export function check<Schema extends z.ZodMiniType>(schema: Schema, input: unknown): z.output<Schema> {
  const result = z.safeParse(schema, input);
  if (result.success) return result.data;
  const errors = toFieldErrors(result.error);
  const text = errors.map(({ field, detail }) => `${field} ${detail}`).join('; ');
  throw new SandboxError('ERR_SANDBOX_INPUT', `Nothing was changed: ${text}.`, { errors });
}

export function readOptions<const Shape extends z.core.$ZodShape>(
  where: string,
  options: object,
  shape: Shape,
): z.output<z.ZodMiniObject<Shape>> {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw new ConfigError(`${where}: the options must be an object.`);
  }
  const unknown = Object.keys(options).find((name) => !Object.hasOwn(shape, name));
  if (unknown !== undefined) {
    throw new ConfigError(
      `${where}: unknown option \`${unknown}\`. Valid options are ${Object.keys(shape).join(', ')}.`,
    );
  }
  const result = z.safeParse(z.object(shape), options);
  if (result.success) return result.data;
  const text = toFieldErrors(result.error).map(({ field, detail }) => `\`${field}\` ${detail}`);
  throw new ConfigError(`${where}: ${text.join('; ')}.`);
}

function toFieldErrors(error: z.core.$ZodError): readonly FieldError[] {
  return error.issues.map(({ path, message }) => ({ field: path.join('.') || 'body', detail: message }));
}

/** `z.record` would drop a field named `__proto__`. */
export const jsonObject = z.custom<Readonly<Record<string, unknown>>>(
  (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
  'must be a JSON object',
);

export const nonEmptyString = z
  .string('must be a string')
  .check(z.minLength(1, 'must not be empty'), z.maxLength(512, 'must have at most 512 characters'));

export const nonEmptyStrings = z.array(nonEmptyString, 'must be a list of strings');

/** `sign` from `stablehooks` rejects a secret with white space at either end. */
export const secret = nonEmptyString.check(
  z.refine((value) => value === value.trim(), 'must not begin or end with white space'),
);

/** Signs, exponents and leading zeros do not match. */
const DECIMAL = /^(?:0|[1-9]\d{0,29})(?:\.\d{1,18})?$/;

/** The amount is a string, because a number would lose precision. */
export const decimal = z
  .string('must be a decimal amount as a string')
  .check(z.regex(DECIMAL, 'must be a decimal amount of zero or more, such as "10.50"'));

export const amount = z
  .string('must be a decimal amount as a string')
  .check(
    z.refine(
      (value) => DECIMAL.test(value) && /[1-9]/.test(value),
      'must be a decimal amount of more than zero, such as "10.50"',
    ),
  );

/** A hundred years. A longer time could lead to a date that is out of range. */
const LONGEST_MS = 100 * 366 * 86_400_000;

export const milliseconds = z
  .int('must be an integer, in milliseconds')
  .check(z.minimum(0, 'must not be negative'), z.maximum(LONGEST_MS, `must be at most ${LONGEST_MS}`));

export const signedMilliseconds = z
  .int('must be an integer, in milliseconds')
  .check(
    z.minimum(-LONGEST_MS, `must be at least ${-LONGEST_MS}`),
    z.maximum(LONGEST_MS, `must be at most ${LONGEST_MS}`),
  );

export function oneOf<const Value extends string>(values: readonly Value[]) {
  return z.enum(values, `must be one of ${values.join(', ')}`);
}

/** Rejects unknown keys, because a misspelt key would otherwise silently have no effect. */
export function closedObject<Shape extends z.core.$ZodShape>(shape: Shape) {
  const names = Object.keys(shape);
  const unknown = z.custom<never>(() => false, {
    error: `is unknown. Valid names: ${names.join(', ')}`,
  });
  // Unlike `strictObject`, this reports each unknown key as a separate issue. The types of both are the same.
  return z.catchall(z.object(shape, 'must be a JSON object'), unknown) as unknown as z.ZodMiniObject<
    Shape,
    z.core.$strict
  >;
}
