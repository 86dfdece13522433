import { decodeEvent } from '../core/events.js';
import { integer, readOptions } from '../core/options.js';
import type { Inbox, InboxAttempt, InboxOperations, InboxRecord } from '../core/ports.js';
import { RUNTIME, type RuntimeOptions, toStoreRuntime } from '../core/runtime.js';
import {
  CAPACITY,
  type Entry,
  EventStore,
  memoryOps,
  NO_ATTEMPTS,
  NO_STEPS,
  withAttempt,
} from './memory-ops.js';
import { countRecords, createOperations, type OperatorOps, type Person } from './operations.js';
import { isSelected, type Limited, type Selection, toPage } from './selection.js';

/** Options of {@link memoryInbox}. */
export interface MemoryInboxOptions {
  /**
   * The maximum number of events. To make room for a new event, a full inbox forgets its oldest `done` event. If the inbox
   * has no `done` event, it forgets the oldest `dead` event, or else the oldest `parked` event. A forgotten event runs again
   * if it is delivered again. If every stored event has yet to run, the inbox rejects the new event, and the delivery gets a
   * 503.
   *
   * @default 100_000
   */
  readonly capacity?: number | undefined;
  /** Replaces the clock, timers and randomness in tests. @default those of the platform */
  readonly runtime?: RuntimeOptions | undefined;
}

/**
 * Stores events in the memory of this process. Use this inbox for tests, for demos, or for an app that runs as a single
 * long-lived process.
 *
 * This inbox isn't durable: all events are lost when the process ends. For that reason, the inbox doesn't dead-letter an
 * event after `maxAttempts` failed attempts. Instead, the sender must redeliver the event.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when an option is unknown or invalid.
 */
export function memoryInbox(options: MemoryInboxOptions = {}): Inbox & InboxOperations {
  const settings = readOptions('memoryInbox', options, {
    capacity: integer({ default: CAPACITY }),
    runtime: RUNTIME,
  });
  const store = new EventStore({ ...settings, runtime: toStoreRuntime(settings.runtime), keepsDone: true });
  return { ...createOperations(toOperations(store)), ...memoryOps(store) };
}

function toOperations(store: EventStore): OperatorOps {
  const { now } = store;

  function select(selection: Selection): Entry[] {
    const entries =
      selection.ids === undefined
        ? [...store.open.values(), ...store.done.values()]
        : [...new Set(selection.ids)].flatMap((id) => store.get(id) ?? []);
    return entries.filter(
      (entry) =>
        isSelected(entry, selection) &&
        (!selection.known || entry.steps.every(({ result }) => result !== null)),
    );
  }

  function addChange(entry: Entry, result: 'requeued' | 'discarded', who: Person): void {
    const at = now();
    const attempt = { attempt: entry.attempts, startedAt: at, endedAt: at, result, error: null, ...who };
    entry.history = withAttempt(entry.history, attempt);
  }

  const selectFirst = ({ selection, limit }: Limited) =>
    toPage(select(selection), { order: 'oldest', limit });

  return {
    find(id) {
      const entry = store.get(id);
      return entry && toRecord(entry);
    },

    list({ selection, limit, after, order, withEvents }) {
      const last = after === undefined ? undefined : store.get(after);
      if (after !== undefined && last === undefined) return [];
      return toPage(select(selection), { order, limit, last }).map((entry) => toRecord(entry, withEvents));
    },

    count: (selection) =>
      countRecords(selection ? select(selection) : [...store.open.values(), ...store.done.values()]),

    requeue(which, who) {
      const requeued = selectFirst(which);
      for (const entry of requeued) {
        if (who !== undefined) addChange(entry, 'requeued', who);
        entry.attempts = 0;
        store.reopen(entry);
        store.change(entry, 'received', now());
      }
      return requeued.length;
    },

    // A single process holds every lease, so `ahead` and `held` don't matter.
    endLeases({ selection, limit }) {
      const at = now();
      const isEnded = ({ dueAt }: Entry) => selection.expired !== true || (dueAt ?? 0) <= at;
      const ended = toPage(select(selection).filter(isEnded), { order: 'oldest', limit });
      for (const entry of ended) {
        entry.dueAt = Math.min(at, entry.dueAt ?? at);
        store.endAttempt(entry, 'lapsed', null);
        entry.token = undefined;
        store.change(entry, 'failed', at);
      }
      return ended;
    },

    discard(which, who) {
      const discarded = selectFirst(which);
      for (const entry of discarded) {
        addChange(entry, 'discarded', who);
        store.finish(entry);
      }
      return discarded.length;
    },

    importDone(ids) {
      const added = ids.filter((id) => store.get(id) === undefined);
      const imported = { state: 'done', origin: 'import', dueAt: null, json: null } as const;
      for (const id of added) store.add({ id, type: '', created_at: '', payload: {} }, imported);
      return added.length;
    },

    prune(olderThanMs) {
      const before = now() - olderThanMs;
      const isOld = ({ json, updatedAt }: Entry) => json !== null && updatedAt <= before;
      const old = [...store.done.values()].filter(isOld);
      for (const entry of old) {
        entry.json = null;
        entry.ignored = false;
        entry.steps = NO_STEPS;
      }
      return old.length;
    },

    steps: (id) => store.get(id)?.steps ?? NO_STEPS,

    stateSteps(id, done, again) {
      const entry = store.open.get(id);
      if (entry?.state !== 'dead' && entry?.state !== 'failed') return;
      entry.steps = entry.steps
        .filter(({ name, result }) => result !== null || !again.includes(name))
        .map((step) => (step.result === null && done.includes(step.name) ? { ...step, result: '' } : step));
    },
  };
}

function toRecord(entry: Entry, withEvent = true): InboxRecord {
  const { startedAt, json, token, isWaiting, createdAt, number, steps, ...record } = entry;
  return { ...record, history: historyOf(entry), event: withEvent ? decodeEvent(entry.id, json) : null };
}

function historyOf({ state, attempts, startedAt, updatedAt, history, json }: Entry): readonly InboxAttempt[] {
  if (json === null) return NO_ATTEMPTS;
  if (state !== 'done' || attempts === 0 || history.at(-1)?.result === 'discarded') return history;
  const endedAt = Math.max(startedAt, updatedAt);
  return withAttempt(history, { attempt: attempts, startedAt, endedAt, result: 'done', error: null });
}
