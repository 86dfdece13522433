import { createdAtMs, encodeEvent, type UnknownEvent } from '../core/events.js';
import type {
  Claim,
  Inbox,
  InboxOperations,
  Lease,
  Origin,
  RecordResult,
  StoredEvent,
} from '../core/ports.js';
import type { Runtime } from '../core/runtime.js';
import { createOperations, type OperatorOps } from './operations.js';
import { toSteps, toStorable } from './rows.js';
import { AHEAD_MS } from './selection.js';

export interface NewEvent {
  readonly id: string;
  readonly type: string;
  readonly json: string;
  readonly key: string | null;
  /** When the event was created, in epoch ms, or `null` if the event has no key. */
  readonly createdMs: number | null;
}

export interface ClaimValues extends NewEvent {
  readonly token: string;
  readonly leaseMs: number;
  readonly origin: Origin;
  readonly early: boolean;
}

/** Some drivers return numbers as text and NULL as `undefined`. */
export interface ClaimRow {
  readonly result: Claim['state'];
  readonly attempts: number | string | null;
  /** How long until the event can be claimed, in ms, or `null` if this is not known. */
  readonly wait: number | string | null;
}

export interface AttemptEnd {
  /** `later` makes the event received, or dead if the event is older than `maxAgeMs`. */
  readonly result: 'done' | 'failed' | 'dead' | 'later';
  /** How long until the event runs again, in ms, or `null` if the event never runs again. */
  readonly retryAfterMs: number | null;
  readonly error: string | null;
  /** The age at which `later` makes an event dead, in ms, or `null` unless `result` is `later`. */
  readonly maxAgeMs: number | null;
}

export const DONE: AttemptEnd = { result: 'done', retryAfterMs: null, error: null, maxAgeMs: null };

/** The ids of the events are distinct. */
export interface Page {
  readonly events: readonly NewEvent[];
  readonly state: 'received' | 'parked' | 'done';
  /** How long until the events are due, in ms, or `null` unless `state` is `received`. */
  readonly dueInMs: number | null;
  readonly origin: Origin;
}

export interface Stored {
  readonly id: string;
  readonly result: RecordResult;
}

/** Every operation changes each event atomically. */
export interface StoreOps<Tx>
  extends OperatorOps,
    Pick<
      Inbox<Tx>,
      'transaction' | 'rehearse' | 'durable' | 'synchronous' | 'readNote' | 'writeNote' | 'leaseNote'
    > {
  claim(values: ClaimValues): Promise<ClaimRow>;
  /** Resolves to `false` if the lease is lost, or to `'dead'` if the event is too old to run later. */
  finish(lease: Lease, end: AttemptEnd): Promise<boolean | 'dead'>;
  store(page: Page): Promise<readonly Stored[]>;
  takeDue(options: Parameters<Inbox['takeDue']>[0]): Promise<readonly StoredEvent[]>;
  /** Whether an event's first attempt can run without a claim, because `transaction` stores the event. */
  readonly takesFirst?: boolean;
  /** Makes a first attempt the owner of its event's steps, even if an earlier attempt owned them. */
  ownSteps?(lease: Lease): Promise<void>;
  /** Stores with synchronous transactions lack this method, because synchronous handlers have no steps. */
  saveStep?(lease: Lease, name: string, result: string | null | undefined): Promise<boolean>;
}

type StoreSettings = Parameters<Inbox['record']>[1];

export function createInbox<Tx>(
  ops: StoreOps<Tx>,
  { uuid, elapsed }: Pick<Runtime, 'uuid' | 'elapsed'>,
  held = new Set<string>(),
): Inbox<Tx> & InboxOperations {
  async function store(
    events: readonly UnknownEvent[],
    { json = [], keys = [], dueInMs, origin }: StoreSettings,
    state: Page['state'],
  ): Promise<readonly RecordResult[]> {
    const page = new Map<string, NewEvent>();
    for (const [index, event] of events.entries()) {
      if (!page.has(event.id)) page.set(event.id, toNew(event, json[index], keys[index]));
    }
    const rows = await ops.store({ events: [...page.values()], state, dueInMs, origin });
    const results = new Map(rows.map(({ id, result }) => [id, result]));
    return events.map(({ id }) => {
      const result = results.get(id);
      if (result === undefined) throw new Error('The store changed the id of an event that it stored.');
      if (result === 'new') results.set(id, state);
      return result;
    });
  }

  /** `takeDue` doesn't look for leases that start in the future before this time. */
  let lookAt = Number.NEGATIVE_INFINITY;

  /** A lease that starts in the future was written while a clock was ahead, and would expire too late. */
  async function endAhead(): Promise<boolean> {
    const selection = { states: ['leased'], ahead: true, held: [...held] } as const;
    return (await ops.endLeases({ selection, limit: 1_000 })).length > 0;
  }

  const finish = (lease: Lease, end: AttemptEnd) =>
    ops.finish(lease, end).finally(() => held.delete(lease.token));

  const { saveStep, transaction } = ops;
  return {
    ...createOperations(ops, held),

    durable: ops.durable,
    synchronous: ops.synchronous,

    async claim(event, { leaseMs, origin, json, early = false, key }) {
      const token = uuid();
      const values = { ...toNew(event, json, key), token, leaseMs, origin, early };
      let claim = await ops.claim(values);
      if (Number(claim.wait ?? 0) > leaseMs && claim.result !== 'failed' && (await endAhead())) {
        claim = await ops.claim(values);
      }
      const { result: state, attempts, wait } = claim;
      if (state === 'claimed') {
        held.add(token);
        return { state, lease: { id: event.id, token, attempt: Number(attempts), key } };
      }
      if (state === 'done' || state === 'dead') return { state };
      return { state, retryAfterMs: Math.max(1, Number(wait ?? 0)) };
    },

    complete: async (lease) => (await finish(lease, DONE)) !== false,

    fail(lease, { retryAfterMs, later, ...failure }) {
      const ended = retryAfterMs === null ? 'dead' : 'failed';
      const result = later === undefined ? ended : 'later';
      const error = toStorable(failure.error);
      return finish(lease, { result, retryAfterMs, error, maxAgeMs: later?.maxAgeMs ?? null });
    },

    ...(transaction && {
      // This method isn't async, because the transaction of a synchronous handler must itself be synchronous.
      transaction(lease, effect) {
        const ending = transaction(lease, effect);
        const forget = () => held.delete(lease.token);
        void Promise.resolve(ending).then(forget, () => undefined);
        return ending;
      },
    }),

    ...(ops.rehearse && { rehearse: ops.rehearse }),

    ...(ops.takesFirst && {
      // A rehearsal runs like the first attempt at an event that no other process knows about.
      async rehearse(effect, { leaseMs }) {
        const first = { type: 'rehearsal', json: '{}', origin: 'redrive', leaseMs } as const;
        await transaction?.({ id: uuid(), token: uuid(), attempt: 1, first }, effect);
      },

      firstLease(event, { json = encodeEvent(event), ...first }) {
        const { id, type } = event;
        return { id, token: uuid(), attempt: 1, first: { type, json, ...first } };
      },
    }),

    ...(saveStep && {
      saveStep,
      async readSteps(lease) {
        const { id, token } = lease;
        if (lease.first !== undefined) await ops.ownSteps?.(lease);
        const rows = await ops.steps(id, token);
        return rows.length === 0 ? null : toSteps(rows);
      },
    }),

    record: (events, options) => store(events, options, options.dueInMs === null ? 'parked' : 'received'),

    ignore: (events, options) => store(events, { ...options, dueInMs: null }, 'done'),

    async takeDue(options) {
      const taken = await ops.takeDue(options);
      // An idle process calls `takeDue` about once a second, so it looks for leases from the future less often.
      if (taken.length > 0 || elapsed() < lookAt) return taken;
      lookAt = elapsed() + AHEAD_MS;
      return (await endAhead()) ? ops.takeDue(options) : taken;
    },

    readNote: ops.readNote,
    writeNote: ops.writeNote,
    leaseNote: ops.leaseNote,
  };
}

function toNew(event: UnknownEvent, json = encodeEvent(event), key?: string): NewEvent {
  const { id, type } = event;
  return key === undefined
    ? { id, type, json, key: null, createdMs: null }
    : { id, type, json, key, createdMs: createdAtMs(event) };
}
