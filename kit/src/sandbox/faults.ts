/** Faults: what goes wrong on request, how often, and whether it does this time. */
import * as z from 'zod/mini';
import { LIST_ORDERS, type ListOrder } from './event-log.js';
import { milliseconds, oneOf } from './fields.js';
import { check } from './problem.js';
import type { Random } from './random.js';

/**
 * How often a fault strikes: a probability from 0 (never) to 1 (always), or the next so many times and then
 * never again.
 */
export type Chance = number | { readonly next: number };

/** Everything that can go wrong. Chances are judged for each attempt, each request or each listed event. */
export interface Faults {
  /** An attempt never arrives; the service sees it fail, and retries. @default 0 */
  readonly drop: Chance;
  /** An attempt arrives twice, at the same time. @default 0 */
  readonly duplicate: Chance;
  /** An event's first attempt waits a part of `reorderMs`, so that later events overtake it. @default 0 */
  readonly reorder: Chance;
  /** @default 1000 */
  readonly reorderMs: number;
  /** An event's first attempt waits `delayMs`. @default 0 */
  readonly delay: Chance;
  /** @default 1000 */
  readonly delayMs: number;
  /** An attempt carries a well-formed signature that is not the body's. @default 0 */
  readonly corruptSignature: Chance;
  /** An attempt's body is parsed and written again with spaces after it was signed. @default 0 */
  readonly reserialise: Chance;
  /** An attempt's connection is cut halfway through the body. @default 0 */
  readonly cut: Chance;
  /** A request under `/v1` is answered 429 and changes nothing. @default 0 */
  readonly apiTooManyRequests: Chance;
  /** The `Retry-After` of a 429; whole seconds, rounded up. @default 1000 */
  readonly apiRetryAfterMs: number;
  /** A request under `/v1` is answered 500 and changes nothing. @default 0 */
  readonly apiServerError: Chance;
  /** A request under `/v1` is answered after `apiSlowMs`. @default 0 */
  readonly apiSlow: Chance;
  /** @default 1000 */
  readonly apiSlowMs: number;
  /** A request under `/v1` takes effect, and half of its JSON answer is missing. @default 0 */
  readonly apiMalformed: Chance;
  /** The order of the list, and so what a limit cuts off. @default 'newest' */
  readonly listOrder: ListOrder;
  /** The list answers no more events than this, whatever the `limit`, and does not say so. @default null, no cap */
  readonly listCap: number | null;
  /** An event is listed only this long after it was created. @default 0 */
  readonly listLagMs: number;
  /** An event's listed `delivered` flag is the opposite of the truth. @default 0 */
  readonly listWrongDelivered: Chance;
}

/** The faults that strike by chance. */
type ChanceFault = Exclude<keyof Faults, `${string}Ms` | 'listOrder' | 'listCap'>;

const NO_FAULTS: Faults = {
  drop: 0,
  duplicate: 0,
  reorder: 0,
  reorderMs: 1000,
  delay: 0,
  delayMs: 1000,
  corruptSignature: 0,
  reserialise: 0,
  cut: 0,
  apiTooManyRequests: 0,
  apiRetryAfterMs: 1000,
  apiServerError: 0,
  apiSlow: 0,
  apiSlowMs: 1000,
  apiMalformed: 0,
  listOrder: 'newest',
  listCap: null,
  listLagMs: 0,
  listWrongDelivered: 0,
};

const CHANCE = 'must be a number from 0 to 1, or { next: a whole number }';
const chance = z.optional(
  z.union(
    [
      z.number().check(z.minimum(0, CHANCE), z.maximum(1, CHANCE)),
      z.strictObject({ next: z.int(CHANCE).check(z.minimum(0, CHANCE)) }),
    ],
    CHANCE,
  ),
);
const duration = z.optional(milliseconds);
const faultsInput = z.strictObject(
  {
    drop: chance,
    duplicate: chance,
    reorder: chance,
    reorderMs: duration,
    delay: chance,
    delayMs: duration,
    corruptSignature: chance,
    reserialise: chance,
    cut: chance,
    apiTooManyRequests: chance,
    apiRetryAfterMs: duration,
    apiServerError: chance,
    apiSlow: chance,
    apiSlowMs: duration,
    apiMalformed: chance,
    listOrder: z.optional(oneOf(LIST_ORDERS)),
    listCap: z.optional(z.nullable(z.int('must be a whole number').check(z.minimum(1, 'must be 1 or more')))),
    listLagMs: duration,
    listWrongDelivered: chance,
  },
  'must be an object of faults',
);

/** The faults of a sandbox: read and set at any time. */
export interface SandboxFaults {
  get(): Faults;
  /**
   * Sets the given faults and leaves the others as they are.
   *
   * @throws {SandboxError} `ERR_SANDBOX_INPUT`, naming the fault.
   */
  set(change: Partial<Faults>): Faults;
  /** Takes every fault away. */
  clear(): Faults;
}

/** The faults, as the parts of the sandbox ask them. */
export interface FaultSource extends SandboxFaults {
  /** Whether the fault strikes this time; `key` names the time, so that the same run has the same fate. */
  strikes(fault: ChanceFault, key: string): boolean;
  save(): Faults;
  /** What was given at creation holds over what was saved. */
  load(saved: Partial<Faults> | undefined): void;
}

export function createFaults(options: {
  readonly random: Random;
  readonly initial: Partial<Faults>;
}): FaultSource {
  const { random } = options;
  const withChange = (before: Faults, change: Partial<Faults>): Faults => {
    const given = Object.entries(check(faultsInput, change)).filter(([, value]) => value !== undefined);
    return { ...before, ...Object.fromEntries(given) };
  };
  let faults = withChange(NO_FAULTS, options.initial);
  return {
    get: () => faults,
    set: (change) => {
      faults = withChange(faults, change);
      return faults;
    },
    clear: () => {
      faults = NO_FAULTS;
      return faults;
    },
    strikes: (fault, key) => {
      const chance = faults[fault];
      if (typeof chance === 'number') return chance > 0 && random.number(`${fault}:${key}`) < chance;
      if (chance.next === 0) return false;
      faults = { ...faults, [fault]: { next: chance.next - 1 } };
      return true;
    },
    save: () => faults,
    load: (saved) => {
      faults = withChange(withChange(NO_FAULTS, saved ?? {}), options.initial);
    },
  };
}
