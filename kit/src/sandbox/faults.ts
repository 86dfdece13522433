import * as z from 'zod/mini';
import { LIST_ORDERS, type ListOrder } from './events.js';
import type { Random } from './random.js';
import { check, closedObject, milliseconds, oneOf, signedMilliseconds } from './validation.js';

/** How often a fault occurs: a probability from 0 to 1, or `{ next: n }` for exactly the next `n` occasions. */
export type Chance = number | { readonly next: number };

/** The faults of a sandbox. Each probability applies separately to every attempt, request or listed event. */
export interface Faults {
  /** An attempt never arrives. The service sees a failure and retries. @default 0 */
  readonly drop: Chance;
  /** An attempt arrives twice at the same time. @default 0 */
  readonly duplicate: Chance;
  /** The first attempt for an event waits for part of `reorderMs`, so later events can arrive earlier. @default 0 */
  readonly reorder: Chance;
  /** The maximum time that a reordered attempt waits, in milliseconds. @default 1000 */
  readonly reorderMs: number;
  /** The first attempt to deliver an event waits for `delayMs`. @default 0 */
  readonly delay: Chance;
  /** How long a delayed attempt waits, in milliseconds. @default 1000 */
  readonly delayMs: number;
  /** An attempt has a well-formed signature that does not match the body. @default 0 */
  readonly corruptSignature: Chance;
  /** The body of an attempt is parsed and serialised with different white space after it was signed. @default 0 */
  readonly reserialise: Chance;
  /** The connection of an attempt is cut halfway through the body. @default 0 */
  readonly cut: Chance;
  /** An attempt arrives, but its connection is reset before the response. The service sees a failure. @default 0 */
  readonly reset: Chance;
  /** A request under `/v1` gets a 429 and changes nothing. @default 0 */
  readonly apiTooManyRequests: Chance;
  /** The `Retry-After` of a 429, in milliseconds. The header rounds the time up to whole seconds. @default 1000 */
  readonly apiRetryAfterMs: number;
  /** A request under `/v1` gets a 500 and changes nothing. @default 0 */
  readonly apiServerError: Chance;
  /** The response to a request under `/v1` is delayed by `apiSlowMs`. @default 0 */
  readonly apiSlow: Chance;
  /** How long a slow response is delayed, in milliseconds. @default 1000 */
  readonly apiSlowMs: number;
  /** A request under `/v1` takes effect, but half of the JSON in its response is missing. @default 0 */
  readonly apiMalformed: Chance;
  /** A request under `/v1` takes effect, but its connection is reset before the response. @default 0 */
  readonly apiReset: Chance;
  /**
   * How far the `Date` header of responses under `/v1` is ahead of the sandbox's clock, in milliseconds. If negative,
   * the header is behind. @default 0
   */
  readonly dateSkewMs: number;
  /**
   * How long the token is valid under `/v1`, in milliseconds. Each `renewToken` and each reset restarts this time.
   * After that time, requests get a 401. @default null, which means that the token never expires
   */
  readonly tokenExpiryMs: number | null;
  /** The order of the service's event list. A `limit` cuts off the end of the list. @default 'newest' */
  readonly listOrder: ListOrder;
  /**
   * The maximum number of events that the list returns, even if `limit` is higher. The response does not reveal this
   * maximum. @default null, which means no maximum
   */
  readonly listCap: number | null;
  /**
   * Whether a query for one type cuts off the list before it filters by type, so that the response leaves out some
   * events. @default false
   */
  readonly listFilterAfterCap: boolean;
  /** How long a new event takes to appear in the list, in milliseconds. @default 0 */
  readonly listLagMs: number;
  /** An event is listed twice. Both copies count towards the `limit`. @default 0 */
  readonly listDuplicate: Chance;
  /** The `delivered` flag of a listed event is wrong. @default 0 */
  readonly listWrongDelivered: Chance;
}

/** The faults to change. Faults that are missing or `undefined` stay as they are. */
export type FaultsInput = { readonly [Name in keyof Faults]?: Faults[Name] | undefined };

type ChanceFault = Exclude<keyof Faults, `${string}Ms` | 'listOrder' | 'listCap' | 'listFilterAfterCap'>;

const CHANCE = 'must be a number from 0 to 1, or { next: an integer }';
const chance = z.union(
  [
    z.number().check(z.minimum(0, CHANCE), z.maximum(1, CHANCE)),
    z.strictObject({ next: z.int(CHANCE).check(z.minimum(0, CHANCE)) }),
  ],
  CHANCE,
);

const FAULTS = {
  drop: [chance, 0],
  duplicate: [chance, 0],
  reorder: [chance, 0],
  reorderMs: [milliseconds, 1000],
  delay: [chance, 0],
  delayMs: [milliseconds, 1000],
  corruptSignature: [chance, 0],
  reserialise: [chance, 0],
  cut: [chance, 0],
  reset: [chance, 0],
  apiTooManyRequests: [chance, 0],
  apiRetryAfterMs: [milliseconds, 1000],
  apiServerError: [chance, 0],
  apiSlow: [chance, 0],
  apiSlowMs: [milliseconds, 1000],
  apiMalformed: [chance, 0],
  apiReset: [chance, 0],
  dateSkewMs: [signedMilliseconds, 0],
  tokenExpiryMs: [z.nullable(milliseconds), null],
  listOrder: [oneOf(LIST_ORDERS), 'newest'],
  listCap: [z.nullable(z.int('must be an integer').check(z.minimum(1, 'must be 1 or more'))), null],
  listFilterAfterCap: [z.boolean('must be true or false'), false],
  listLagMs: [milliseconds, 0],
  listDuplicate: [chance, 0],
  listWrongDelivered: [chance, 0],
} as const satisfies {
  readonly [Name in keyof Faults]: readonly [z.ZodMiniType<Faults[Name]>, Faults[Name]];
};

const mapFaults = (toValue: (fault: (typeof FAULTS)[keyof Faults]) => unknown) =>
  Object.fromEntries(Object.entries(FAULTS).map(([name, fault]) => [name, toValue(fault)]));

export const NO_FAULTS = mapFaults(([, none]) => none) as unknown as Faults;

export const faultsInput = closedObject(
  mapFaults(([form]) => z.optional(form)) as {
    readonly [Name in keyof Faults]: z.ZodMiniOptional<z.ZodMiniType<Faults[Name]>>;
  },
);

/** The faults of a sandbox. You can change them at any time. */
export interface SandboxFaults {
  get(): Faults;
  /** Sets the given faults and leaves the others unchanged. @throws {SandboxError} `ERR_SANDBOX_INPUT` */
  set(change: FaultsInput): Faults;
  /** Removes every fault. */
  clear(): Faults;
}

export type FaultSource = ReturnType<typeof createFaults>;

export function createFaults(random: Random, initial: FaultsInput) {
  const withChange = (before: Faults, change: FaultsInput): Faults => {
    const given = Object.entries(check(faultsInput, change)).filter(([, value]) => value !== undefined);
    return { ...before, ...Object.fromEntries(given) };
  };
  let faults = withChange(NO_FAULTS, initial);
  return {
    get: (): Faults => faults,
    set: (change: FaultsInput): Faults => {
      faults = withChange(faults, change);
      return faults;
    },
    clear: (): Faults => {
      faults = NO_FAULTS;
      return faults;
    },
    /** `key` identifies the occasion, so that a repeated run has the same result. */
    occurs: (fault: ChanceFault, key: string): boolean => {
      const chance = faults[fault];
      if (typeof chance === 'number') return chance > 0 && random.number(`${fault}:${key}`) < chance;
      if (chance.next === 0) return false;
      faults = { ...faults, [fault]: { next: chance.next - 1 } };
      return true;
    },
    reset: (): void => {
      faults = withChange(NO_FAULTS, initial);
    },
  };
}
