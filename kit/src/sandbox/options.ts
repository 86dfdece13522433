import type { RuntimeOptions } from 'stablehooks';
import * as z from 'zod/mini';
import type { ClockMode } from './clock.js';
import { type EndpointInput, endpointInput } from './endpoints.js';
import { type FaultsInput, faultsInput } from './faults.js';
import { decimal, milliseconds, oneOf, readOptions, secret } from './validation.js';

/** Options of `createSandbox`. */
export interface SandboxOptions {
  /** The required value of `Authorization: Bearer …`. @default 'sandbox-token' */
  readonly token?: string | undefined;
  /** Signs for every endpoint without its own secret. @default 'sandbox-secret' */
  readonly secret?: string | undefined;
  /** An integer that determines every id, fault and wait. @default a random one, see `sandbox.seed` */
  readonly seed?: number | undefined;
  /** The targets of events. @default [] */
  readonly endpoints?: readonly EndpointInput[] | undefined;
  /** The faults from the start. @default none */
  readonly faults?: FaultsInput | undefined;
  /** Whether the time runs by itself. @default 'real' */
  readonly clock?: ClockMode | undefined;
  /** Where a manual clock starts, ISO 8601. @default '2026-01-01T00:00:00.000Z' */
  readonly startsAt?: string | undefined;
  /**
   * The time, and the timers of a real clock, as the `runtime` of `createReceiver`, for simulations.
   *
   * @default those of the platform
   */
  readonly runtime?: Pick<RuntimeOptions, 'now' | 'setTimeout' | 'clearTimeout'> | undefined;
  /** How long, in real time, the clock waits for an answer before it is moved. @default 1000 */
  readonly settleTimeoutMs?: number | undefined;
  /** The initial balance of each new wallet, in USDC, a decimal string. @default '10000.00' */
  readonly initialBalance?: string | undefined;
  /** How long a movement is pending; with 0 it ends in the call that begins it. @default 0 */
  readonly movementMs?: number | undefined;
  /** How long an endpoint has to answer. @default 10_000 */
  readonly timeoutMs?: number | undefined;
  /** The maximum number of attempts of a delivery; 1 never retries. @default 8 */
  readonly maxAttempts?: number | undefined;
  /**
   * The wait after the first attempt. It doubles each time, minus a random part of up to a half. A longer `Retry-After` of
   * the endpoint replaces it, up to an hour. @default 1000
   */
  readonly retryBaseMs?: number | undefined;
  /** The longest wait between attempts, without a `Retry-After`. @default 60_000 */
  readonly retryMaxMs?: number | undefined;
  /** How many attempts at one endpoint run at the same time. @default 16 */
  readonly concurrency?: number | undefined;
  /** The largest `limit` that the list accepts. @default 1_000_000 */
  readonly maxLimit?: number | undefined;
  /** The largest request body, in bytes; a larger one gets a 413. @default 1_048_576 */
  readonly maxBodyBytes?: number | undefined;
  /** How many events, ended movements and ended deliveries are kept, the newest of each. @default 250_000 */
  readonly maxEvents?: number | undefined;
  /** How many attempts are kept, the newest; up to half of them older ones of events that no endpoint has accepted. @default 10_000 */
  readonly maxAttemptsKept?: number | undefined;
}

/** Public, so a sandbox that other machines can reach needs another token. */
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

/** The checked options, with the defaults. */
export type SandboxSettings = z.output<z.ZodMiniObject<typeof shape>>;

export function readSandboxOptions(options: SandboxOptions): SandboxSettings {
  return readOptions('createSandbox', options, shape);
}
