/** The limits of `health`, and the names of its checks. */
import { boolean, inboxWith, integer, readOptions } from '../core/options.js';
import type { Inbox, InboxOperations } from '../core/ports.js';
import { RUNTIME, type RuntimeOptions } from '../core/runtime.js';

/** The part of an inbox that `health` uses. Every inbox in this package has it. */
export type HealthInbox = Pick<InboxOperations, 'count' | 'list'> & Pick<Inbox, 'readNote' | 'writeNote'>;

/** The limits beyond which a check fails. Times are in ms. */
export interface HealthLimits {
  /** How long an event may be due, a lease may be expired, or polls may fail. @default 300_000 */
  readonly dueMs?: number | undefined;
  /** The maximum age of the last poll and of the watermark. @default 3_600_000 */
  readonly provenMs?: number | undefined;
  /** How many dead events to allow. @default 0 */
  readonly maxDead?: number | undefined;
  /** If true, an inbox is unhealthy until a poll has run. @default false */
  readonly requirePoll?: boolean | undefined;
  /** If true, an inbox is unhealthy until an event arrives by push. @default false */
  readonly requirePush?: boolean | undefined;
  /** The clock, for tests. @default the platform's */
  readonly runtime?: RuntimeOptions | undefined;
}

export function readLimits(where: string, limits: HealthLimits) {
  return readOptions(where, limits, {
    dueMs: integer({ default: 300_000, min: 0, max: Number.MAX_SAFE_INTEGER }),
    provenMs: integer({ default: 3_600_000, min: 0, max: Number.MAX_SAFE_INTEGER }),
    maxDead: integer({ default: 0, min: 0 }),
    requirePoll: boolean(false),
    requirePush: boolean(false),
    runtime: RUNTIME,
  });
}

export function assertInbox(where: string, inbox: HealthInbox): void {
  readOptions(where, { inbox }, { inbox: inboxWith('count', 'list', 'readNote') });
}

export type HealthSettings = Omit<ReturnType<typeof readLimits>, 'runtime'>;
