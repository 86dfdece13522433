/** What a sandbox is made with, and the defaults. */

import { ConfigError } from 'stablehooks';
import * as z from 'zod/mini';
import type { ClockMode } from './clock.js';
import { isDecimal } from './decimal.js';
import type { EndpointInput } from './endpoints.js';
import type { Faults } from './faults.js';
import { milliseconds, secret } from './fields.js';

/** Options of `createSandbox`. */
export interface SandboxOptions {
  /** What `Authorization: Bearer …` must carry. @default 'sandbox-token' */
  readonly token?: string | undefined;
  /** Signs for every endpoint that has no secret of its own. @default 'sandbox-secret' */
  readonly secret?: string | undefined;
  /** Decides every id, every fault and every wait: a whole number. @default a new one each time, in `sandbox.seed` */
  readonly seed?: number | undefined;
  /** Where events are delivered from the start; of a URL that a state file knows, the file decides. @default [] */
  readonly endpoints?: readonly EndpointInput[] | undefined;
  /** What goes wrong from the start; holds over what a state file says of the same fault. @default nothing */
  readonly faults?: Partial<Faults> | undefined;
  /** Whether time runs by itself. @default 'real' */
  readonly clock?: ClockMode | undefined;
  /** Where a manual clock starts, ISO 8601. @default '2026-01-01T00:00:00.000Z' */
  readonly startsAt?: string | undefined;
  /** How long, in real time, a clock that is moved waits for an answer before it moves on. @default 1000 */
  readonly settleTimeoutMs?: number | undefined;
  /** What each new wallet holds; decimal text, in USDC. @default '10000.00' */
  readonly initialBalance?: string | undefined;
  /** How long a movement is pending; with 0 it ends in the call that begins it. @default 0 */
  readonly movementMs?: number | undefined;
  /** How long an endpoint has to answer. @default 10_000 */
  readonly timeoutMs?: number | undefined;
  /** How many attempts a delivery gets; 1 never retries. @default 8 */
  readonly maxAttempts?: number | undefined;
  /** The wait after the first attempt; it doubles with each, and up to half of it is taken off. @default 1000 */
  readonly retryBaseMs?: number | undefined;
  /** The longest wait between attempts. @default 60_000 */
  readonly retryMaxMs?: number | undefined;
  /** How many attempts run at once towards one endpoint. @default 16 */
  readonly concurrency?: number | undefined;
  /** The largest `limit` that the list takes. @default 1_000_000 */
  readonly maxLimit?: number | undefined;
  /** The largest request body, in bytes; more is answered 413. @default 1_048_576 */
  readonly maxBodyBytes?: number | undefined;
  /** How many events, ended movements and ended deliveries of each are remembered, the newest. @default 250_000 */
  readonly maxEvents?: number | undefined;
  /** How many attempts are remembered, the newest. @default 10_000 */
  readonly maxAttemptsKept?: number | undefined;
  /** A JSON file that the state is loaded from, if it exists, and saved to. @default none: memory only */
  readonly stateFile?: string | undefined;
  /** How long after a change the state is saved. @default 1000 */
  readonly saveAfterMs?: number | undefined;
}

/** The options with every default filled in. */
export type Settings = ReturnType<typeof toSettings>;

const whole = z.int().check(z.minimum(0));
const counted = z.int().check(z.minimum(1));
const positiveMs = milliseconds.check(z.minimum(1));
const nonEmpty = z.string().check(z.minLength(1));

const settings = z.strictObject({
  // What a header can carry as one word.
  token: z._default(z.string().check(z.regex(/^[!-~]+$/)), 'sandbox-token'),
  secret: z._default(secret, 'sandbox-secret'),
  seed: z.optional(z.int()),
  endpoints: z._default(z.array(z.custom<EndpointInput>()), []),
  faults: z._default(z.custom<Partial<Faults>>(), {}),
  clock: z._default(z.enum(['real', 'manual']), 'real'),
  startsAt: z._default(z.iso.datetime({ offset: true }), '2026-01-01T00:00:00.000Z'),
  settleTimeoutMs: z._default(whole, 1000),
  initialBalance: z._default(z.string().check(z.refine(isDecimal)), '10000.00'),
  movementMs: z._default(milliseconds, 0),
  timeoutMs: z._default(positiveMs, 10_000),
  maxAttempts: z._default(counted, 8),
  retryBaseMs: z._default(positiveMs, 1000),
  retryMaxMs: z._default(positiveMs, 60_000),
  concurrency: z._default(counted, 16),
  maxLimit: z._default(counted, 1_000_000),
  maxBodyBytes: z._default(counted, 1_048_576),
  maxEvents: z._default(counted, 250_000),
  maxAttemptsKept: z._default(counted, 10_000),
  stateFile: z.optional(nonEmpty),
  saveAfterMs: z._default(whole, 1000),
});

/**
 * Fills the defaults in.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID`, naming the option.
 */
export function toSettings(options: SandboxOptions) {
  const judged = z.safeParse(settings, options);
  if (judged.success) return judged.data;
  const names = judged.error.issues.map((issue) =>
    issue.code === 'unrecognized_keys' ? issue.keys.join(', ') : issue.path.join('.') || 'options',
  );
  throw new ConfigError(
    `createSandbox does not take these options as they are: ${[...new Set(names)].join(', ')}. See SandboxOptions for what each must be.`,
  );
}
