/** The verdict on one overdue movement. Pure; times are epoch ms. */
import { toIso } from '../catch-up/gap-text.js';
import { countOf } from '../core/count.js';
import type { EventType } from '../core/events.js';
import type { InboxRecord, InboxState } from '../core/ports.js';
import type { UnprovenSpan } from './proof.js';
import { describeUnproven } from './report.js';

/**
 * Where the event is that ends an overdue movement.
 *
 * - `arrived-not-booked`: in the inbox. The app has not acted on it.
 * - `listed-not-received`: in the list, and not in the inbox.
 * - `owed`: nowhere, and the list is proven complete: the service owes it.
 * - `not-proven`: nowhere, and the list is not proven complete.
 */
export type OwedVerdict = 'arrived-not-booked' | 'listed-not-received' | 'owed' | 'not-proven';

/** An overdue movement. Plain data. */
export interface OwedMovement {
  readonly key: string;
  /** When it began, ISO. */
  readonly since: string;
  /** How long ago it should have ended, in ms. */
  readonly overdueMs: number;
  readonly verdict: OwedVerdict;
  /** The event that ends it, if the inbox or the list has it. */
  readonly eventId: string | null;
  /** The state of that event in the inbox; `null` if the inbox does not have it. */
  readonly state: InboxState | null;
  /** The finding and what to do: one to three sentences. */
  readonly detail: string;
}

export interface Pending {
  readonly key: string;
  readonly since: number;
}

export type Ending = Pick<InboxRecord, 'id' | 'type' | 'updatedAt' | 'lastError' | 'ignored'> & {
  /** `null`: only the list has it. */
  readonly state: InboxState | null;
};

/** What is known about the movements of a chunk. */
export interface OwedFacts {
  readonly settings: {
    readonly terminal: readonly EventType[];
    readonly withinMs: number;
    readonly lagMs: number;
  };
  readonly at: number;
  /** Events created later may still be listed. */
  readonly settledAt: number;
  readonly ended: ReadonlyMap<string, Ending>;
  /** Spans in which an event of a terminal type may be missing. */
  readonly unproven: readonly UnprovenSpan[];
  /** When an event was received last whose text is gone. */
  readonly unreadableAt: number;
}

/** `null` for a movement whose event has just ended: the app's row may be older than that. */
export function judgeMovement({ key, since }: Pending, facts: OwedFacts): OwedMovement | null {
  const { withinMs, lagMs } = facts.settings;
  const ending = facts.ended.get(key);
  if (ending?.state === 'done' && !ending.ignored && ending.updatedAt > facts.at - lagMs) return null;
  const deadline = since + withinMs;
  const { verdict, detail } =
    ending === undefined ? judgeMissing(since, deadline, facts) : describeEnding(ending);
  return {
    key,
    since: toIso(since),
    overdueMs: facts.at - deadline,
    verdict,
    eventId: ending?.id ?? null,
    state: ending?.state ?? null,
    detail,
  };
}

function describeEnding({ id, type, state, updatedAt, lastError, ignored }: Ending) {
  const event = `${id} (${type})`;
  const error = lastError === null ? '' : ` ${lastError.replace(/\.$/, '')}.`;
  if (state === null) {
    const detail = `The service lists ${event}, and the inbox does not have it. The next poll records it, unless it is older than the poller's start date.`;
    return { verdict: 'listed-not-received', detail } as const;
  }
  const details = {
    done: ignored
      ? `${event} ended without a handler. Add the handler, and requeue it.`
      : `${event} is done since ${toIso(updatedAt)}, and the movement is still pending. Check that its handler finds this movement.`,
    dead: `${event} is dead.${error} Fix the cause, and requeue it.`,
    failed: `${event} failed and runs again.${error}`,
    leased: `${event} is running.`,
    received: `${event} waits to run.${error} The check \`due\` says whether a process runs it.`,
    parked: `${event} is parked. Run a release that has a handler for it.`,
  };
  return { verdict: 'arrived-not-booked', detail: details[state] } as const;
}

function judgeMissing(since: number, deadline: number, facts: OwedFacts) {
  const { settings, settledAt, at, unproven, unreadableAt } = facts;
  const types = settings.terminal.join(' or ');
  const begin = since - settings.lagMs;
  const notProven = (detail: string) => ({ verdict: 'not-proven', detail }) as const;
  if (deadline > settledAt) {
    return notProven(
      `No ${types} of it is known. Later events than ${toIso(settledAt)} may still be listed.`,
    );
  }
  const part = unproven.find(({ until }) => until > begin);
  if (part !== undefined) {
    const span = `between ${toIso(Math.max(part.from, begin))} and ${toIso(part.until)}`;
    return notProven(
      `No ${types} of it is known, and one may be missing ${span}. ${describeUnproven(part.reason)}`,
    );
  }
  if (unreadableAt >= begin) {
    return notProven(
      `No ${types} of it is known, and the inbox has events of that time whose text is gone, such as pruned ones. Prune later than movements can be pending.`,
    );
  }
  const overdue = countOf(Math.max(1, Math.round((at - deadline) / 60_000)), 'minute');
  const detail = `Overdue by ${overdue}. The list is proven complete until ${toIso(settledAt)} and has no ${types} of it: the service owes it. Ask the service for this movement.`;
  return { verdict: 'owed', detail } as const;
}
