import type { RuntimeOptions } from 'stablehooks';
import * as z from 'zod/mini';
import type { ClockMode } from './clock.js';
import { type EndpointInput, endpointInput } from './endpoints.js';
import { type FaultsInput, faultsInput } from './faults.js';
import { decimal, milliseconds, oneOf, readOptions, secret } from './validation.js';

/** Options of `createSandbox`. */
export interface SandboxOptions {
  /** The token that requests must include as `Authorization: Bearer …`. @default 'sandbox-token' */
  readonly token?: string | undefined;
  /** The secret to sign deliveries with, unless an endpoint sets a different secret. @default 'sandbox-secret' */
  readonly secret?: string | undefined;
  /** An integer that determines every id, fault and delay. @default a random integer, available as `sandbox.seed` */
  readonly seed?: number | undefined;
  /** The endpoints to deliver events to. @default [] */
  readonly endpoints?: readonly EndpointInput[] | undefined;
  /** The faults that apply from the start. @default none */
  readonly faults?: FaultsInput | undefined;
  /** Whether time passes on its own (`real`) or only when you advance it (`manual`). @default 'real' */
  readonly clock?: ClockMode | undefined;
  /** The start time of a manual clock, in ISO 8601. @default '2026-01-01T00:00:00.000Z' */
  readonly startsAt?: string | undefined;
  /** Replaces the time and timers of a real clock, like `runtime` of `createReceiver`. @default those of the platform */
  readonly runtime?: Pick<RuntimeOptions, 'now' | 'setTimeout' | 'clearTimeout'> | undefined;
  /** How long the clock waits for a response before it moves on, in milliseconds of real time. @default 1000 */
  readonly settleTimeoutMs?: number | undefined;
  /** The initial balance of each new wallet in USDC, as a decimal string. @default '10000.00' */
  readonly initialBalance?: string | undefined;
  /** How long a movement stays pending, in milliseconds. With 0, it ends in the call that starts it. @default 0 */
  readonly movementMs?: number | undefined;
  /** How long to wait for an endpoint to respond, in milliseconds. @default 10_000 */
  readonly timeoutMs?: number | undefined;
  /** The maximum number of attempts per delivery. 1 disables retries. @default 8 */
  readonly maxAttempts?: number | undefined;
  /**
   * The delay after the first attempt, in milliseconds. The delay doubles after each further attempt, and is then
   * reduced at random by up to half. If the endpoint sends a `Retry-After` that is longer, the sandbox waits that long
   * instead, up to an hour. @default 1000
   */
  readonly retryBaseMs?: number | undefined;
  /** The maximum delay between attempts, in milliseconds. A longer `Retry-After` takes precedence. @default 60_000 */
  readonly retryMaxMs?: number | undefined;
  /** The maximum number of simultaneous attempts per endpoint. @default 16 */
  readonly concurrency?: number | undefined;
  /** The maximum `limit` of a request for the list of events. @default 1_000_000 */
  readonly maxLimit?: number | undefined;
  /** The maximum size of a request body, in bytes. A request with a larger body gets a 413. @default 1_048_576 */
  readonly maxBodyBytes?: number | undefined;
  /**
   * The maximum number of events to keep, and also of ended movements and of ended deliveries. The newest of each are
   * kept. @default 250_000
   */
  readonly maxEvents?: number | undefined;
  /**
   * The maximum number of attempts to keep. The newest attempts are kept, but up to half of the kept attempts can be
   * older attempts to deliver events that no endpoint has accepted. @default 10_000
   */
  readonly maxAttemptsKept?: number | undefined;
}

/** This token is public, so a sandbox that other machines can reach needs a different token. */
export const DEFAULT_TOKEN = 'sandbox-token';

const integerFrom = (min: number) =>
  z.int('must be an integer').check(z.minimum(min, `must be at least ${min}`));
const positiveMs = milliseconds.check(z.minimum(1, 'must be at least 1'));

const shape = {
  token: z._default(
    z
      .string('must be a string')
      .check(z.regex(/^[!-~]+$/, 'must consist of visible ASCII characters, without spaces')),
    DEFAULT_TOKEN,
  ),
  secret: z._default(secret, 'sandbox-secret'),
  seed: z.optional(z.int('must be an integer')),
  endpoints: z._default(z.array(endpointInput, 'must be a list of endpoints'), []),
  faults: z._default(faultsInput, {}),
  clock: z._default(oneOf(['real', 'manual']), 'real'),
  startsAt: z._default(
    z.iso.datetime({ offset: true, error: 'must be an ISO 8601 date-time' }),
    '2026-01-01T00:00:00.000Z',
  ),
  runtime: z._default(
    z.custom<NonNullable<SandboxOptions['runtime']>>(
      (value) => typeof value === 'object' && value !== null,
      'must be an object of functions',
    ),
    {},
  ),
  settleTimeoutMs: z._default(integerFrom(0), 1000),
  initialBalance: z._default(decimal, '10000.00'),
  movementMs: z._default(milliseconds, 0),
  timeoutMs: z._default(positiveMs, 10_000),
  maxAttempts: z._default(integerFrom(1), 8),
  retryBaseMs: z._default(positiveMs, 1000),
  retryMaxMs: z._default(positiveMs, 60_000),
  concurrency: z._default(integerFrom(1), 16),
  maxLimit: z._default(integerFrom(1), 1_000_000),
  maxBodyBytes: z._default(integerFrom(1), 1_048_576),
  maxEvents: z._default(integerFrom(1), 250_000),
  maxAttemptsKept: z._default(integerFrom(1), 10_000),
} satisfies Readonly<Record<keyof SandboxOptions, z.ZodMiniType>>;

export type SandboxSettings = z.output<z.ZodMiniObject<typeof shape>>;

export function readSandboxOptions(options: SandboxOptions): SandboxSettings {
  return readOptions('createSandbox', options, shape);
}
