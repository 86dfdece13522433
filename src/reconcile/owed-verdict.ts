/** Numeric times are in epoch ms. */
import { toIso } from '../catch-up/gap-text.js';
import { countOf } from '../core/count.js';
import type { EventType } from '../core/events.js';
import type { InboxRecord, InboxState } from '../core/ports.js';
import type { UnprovenSpan } from './proof.js';
import { describeUnproven } from './report.js';

/**
 * Where `findOwed` found the event that ends an overdue movement. "The list" is the service's event list.
 *
 * - `arrived-not-booked`: the event is in the inbox, but your app has not acted on it.
 * - `listed-not-received`: the event is in the list, but not in the inbox.
 * - `owed`: neither the list nor the inbox has the event, and the list is proven complete. The service owes you the event.
 * - `not-proven`: neither the list nor the inbox has the event, but the list is not proven complete.
 */
export type OwedVerdict = 'arrived-not-booked' | 'listed-not-received' | 'owed' | 'not-proven';

/** An overdue movement, as plain data. */
export interface OwedMovement {
  readonly key: string;
  /** When the movement began, in ISO 8601. */
  readonly since: string;
  /** How long the movement has been overdue, in ms. */
  readonly overdueMs: number;
  readonly verdict: OwedVerdict;
  /** The id of the event that ends the movement; `null` if neither the inbox nor the list has it. */
  readonly eventId: string | null;
  /** The state of that event in the inbox; `null` if the inbox doesn't have the event. */
  readonly state: InboxState | null;
  /** What was found and what to do, in a few sentences. */
  readonly detail: string;
}

export interface Pending {
  readonly key: string;
  readonly since: number;
}

export type Ending = Pick<InboxRecord, 'id' | 'type' | 'updatedAt' | 'lastError' | 'ignored'> & {
  /** `null` if only the list has the event. */
  readonly state: InboxState | null;
};

export interface OwedFacts {
  readonly settings: {
    readonly terminal: readonly EventType[];
    readonly withinMs: number;
    readonly lagMs: number;
  };
  readonly at: number;
  /** Events that were created after this time may not be in the service's list yet. */
  readonly settledAt: number;
  readonly ended: ReadonlyMap<string, Ending>;
  /** Spans in which an event of a terminal type may be missing. */
  readonly unproven: readonly UnprovenSpan[];
  /** When the inbox received the newest event whose text is pruned or unreadable. */
  readonly unreadableAt: number;
}

/** Returns `null` if the event was done so recently that the app may have read the movement before that. */
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
    const detail = `The service lists ${event}, but the inbox does not have it. The next poll records the event, unless it is older than the poller's start date.`;
    return { verdict: 'listed-not-received', detail } as const;
  }
  const details = {
    done: ignored
      ? `${event} was ignored, because there was no handler for it. Add the handler, then requeue the event.`
      : `${event} has been done since ${toIso(updatedAt)}, but the movement is still pending. Check that the handler finds this movement.`,
    dead: `${event} is dead.${error} Fix the cause, then requeue the event.`,
    failed: `${event} failed and will run again.${error}`,
    leased: `${event} is running.`,
    received: `${event} is waiting to run.${error} The health check \`due\` shows whether a process runs due events.`,
    parked: `${event} is parked. Deploy a release that has a handler for it.`,
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
      `No ${types} event is known for this movement. Events created after ${toIso(settledAt)} may not be in the service's list yet.`,
    );
  }
  const part = unproven.find(({ until }) => until > begin);
  if (part !== undefined) {
    const span = `between ${toIso(Math.max(part.from, begin))} and ${toIso(part.until)}`;
    return notProven(
      `No ${types} event is known for this movement, but such an event may be missing ${span}. ${describeUnproven(part.reason)}`,
    );
  }
  if (unreadableAt >= begin) {
    return notProven(
      `No ${types} event is known for this movement, but the inbox has events from that time that were pruned or cannot be read. Do not prune events while their movements may still be pending.`,
    );
  }
  const overdue = countOf(Math.max(1, Math.round((at - deadline) / 60_000)), 'minute');
  const detail = `Overdue by ${overdue}. The service's list is proven complete up to ${toIso(settledAt)} and contains no ${types} event for this movement, so the service owes you that event. Ask the service about this movement.`;
  return { verdict: 'owed', detail } as const;
}
