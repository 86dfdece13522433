import { boolean, inboxWith, integer, readOptions } from '../core/options.js';
import type { Inbox, InboxOperations } from '../core/ports.js';
import { RUNTIME, type RuntimeOptions } from '../core/runtime.js';

/** The methods of an inbox that `health` calls. Every inbox in this package has them. */
export type HealthInbox = Pick<InboxOperations, 'count' | 'list'> & Pick<Inbox, 'readNote' | 'writeNote'>;

/** The limits beyond which a check fails. Times are in ms. */
export interface HealthLimits {
  /** How long events can be due, leases can be expired, or polls can fail before a check fails. @default 300_000 */
  readonly dueMs?: number | undefined;
  /** The maximum age of the last poll, and of the time up to which no event is missing. @default 3_600_000 */
  readonly provenMs?: number | undefined;
  /** The maximum number of dead events with which the inbox still counts as healthy. @default 0 */
  readonly maxDead?: number | undefined;
  /** If true, an inbox is unhealthy until a poll has run. @default false */
  readonly requirePoll?: boolean | undefined;
  /** If true, an inbox is unhealthy until an event arrives by push. @default false */
  readonly requirePush?: boolean | undefined;
  /** A replacement for the clock, for tests. @default the platform's */
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
