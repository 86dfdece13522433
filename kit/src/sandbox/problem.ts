/** What the sandbox refuses, and the `application/problem+json` (RFC 9457) that says so. */

import { StablehooksError } from 'stablehooks';
import * as z from 'zod/mini';

/** Every way to be refused, and the HTTP status of each. */
const STATUSES = {
  ERR_SANDBOX_INPUT: 400,
  ERR_SANDBOX_TOKEN: 401,
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

/** A field that is missing or wrong: `limits.perTx`, and what it must be. Never its value. */
export interface FieldError {
  readonly field: string;
  readonly detail: string;
}

/** The sandbox refused: nothing has changed. Over HTTP it is an `application/problem+json`. */
export class SandboxError extends StablehooksError<SandboxErrorCode> {
  override readonly name = 'SandboxError';
  /** The HTTP status that goes with the code. */
  readonly status: (typeof STATUSES)[SandboxErrorCode];
  readonly errors: readonly FieldError[];

  constructor(
    code: SandboxErrorCode,
    message: string,
    options: ErrorOptions & { readonly errors?: readonly FieldError[] } = {},
  ) {
    super(code, message, options);
    this.status = STATUSES[code];
    this.errors = options.errors ?? [];
  }
}

/** Writes the answer to a refused request. */
export function toProblem(error: SandboxError, headers: Readonly<Record<string, string>> = {}): Response {
  const { status, code, message, errors } = error;
  const body = JSON.stringify({ type: 'about:blank', status, code, detail: message, errors });
  return new Response(body, { status, headers: { 'content-type': 'application/problem+json', ...headers } });
}

/**
 * Judges an input.
 *
 * @throws {SandboxError} `ERR_SANDBOX_INPUT`, naming each field that is missing or wrong.
 */
export function check<Schema extends z.ZodMiniType>(schema: Schema, input: unknown): z.output<Schema> {
  const judged = z.safeParse(schema, input);
  if (judged.success) return judged.data;
  const errors = judged.error.issues.flatMap((issue): readonly FieldError[] =>
    issue.code === 'unrecognized_keys'
      ? issue.keys.map((key) => ({ field: [...issue.path, key].join('.'), detail: 'is not known' }))
      : [{ field: issue.path.join('.') || 'body', detail: issue.message }],
  );
  const text = errors.map(({ field, detail }) => `${field} ${detail}`).join('; ');
  throw new SandboxError('ERR_SANDBOX_INPUT', `Nothing was changed: ${text}.`, { errors });
}
