/** The inbox over the steps of a durable store: what every store would do in the same way is done here. */
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
import { createOperations, type OperationSteps } from './operations.js';
import { toSteps, toStorable } from './rows.js';

export interface NewEvent {
  readonly id: string;
  readonly type: string;
  readonly json: string;
  readonly key: string | null;
  /** When an event with a key was created, in epoch ms: events that wait for a key run in this order. */
  readonly createdMs: number | null;
}

export interface ClaimStep extends NewEvent {
  readonly token: string;
  readonly leaseMs: number;
  readonly origin: Origin;
  readonly early: boolean;
}

/** The result of a claim. Drivers can read numbers as text, and NULL as `undefined`. */
export interface ClaimRow {
  readonly result: Claim['state'];
  readonly attempts: number | string | null;
  /** How long until the event can be claimed, in ms, if that is known. */
  readonly wait: number | string | null;
}

export interface AttemptEnd {
  /** The state of the event after it; `later` makes it received, or dead if it is older than `maxAgeMs`. */
  readonly result: 'done' | 'failed' | 'dead' | 'later';
  /** `null` unless the event runs again. */
  readonly retryAfterMs: number | null;
  readonly error: string | null;
  /** `null` unless `result` is `later`. */
  readonly maxAgeMs: number | null;
}

export const DONE: AttemptEnd = { result: 'done', retryAfterMs: null, error: null, maxAgeMs: null };

/** A page of different events, of which the new ones are stored in one state. */
export interface PageStep {
  readonly events: readonly NewEvent[];
  readonly state: 'received' | 'parked' | 'done';
  /** `null` unless they are received. */
  readonly dueInMs: number | null;
  readonly origin: Origin;
}

/** The steps of a store. Each is atomic. */
export interface StoreSteps<Tx>
  extends OperationSteps,
    Pick<Inbox<Tx>, 'transaction' | 'durable' | 'readNote' | 'writeNote' | 'leaseNote'> {
  claim(step: ClaimStep): Promise<ClaimRow>;
  /** Returns `false` if the lease is lost, and `'dead'` for an event that is too old to run later. */
  finish(lease: Lease, end: AttemptEnd): Promise<boolean | 'dead'>;
  store(page: PageStep): Promise<readonly { readonly id: string; readonly result: RecordResult }[]>;
  takeDue(options: Parameters<Inbox['takeDue']>[0]): Promise<readonly StoredEvent[]>;
  /** None in transactions of synchronous handlers, which have no steps. */
  saveStep?(lease: Lease, name: string, result: string | null | undefined): Promise<boolean>;
}

type StoreSettings = Parameters<Inbox['record']>[1];

export function createInbox<Tx>(
  steps: StoreSteps<Tx>,
  { uuid }: Pick<Runtime, 'uuid'>,
): Inbox<Tx> & InboxOperations {
  async function store(
    events: readonly UnknownEvent[],
    { json = [], keys = [], dueInMs, origin }: StoreSettings,
    state: PageStep['state'],
  ): Promise<readonly RecordResult[]> {
    const page = new Map<string, NewEvent>();
    for (const [index, event] of events.entries()) {
      if (!page.has(event.id)) page.set(event.id, toNew(event, json[index], keys[index]));
    }
    const rows = await steps.store({ events: [...page.values()], state, dueInMs, origin });
    const results = new Map(rows.map(({ id, result }) => [id, result]));
    return events.map(({ id }) => {
      const result = results.get(id) ?? state;
      if (result === 'new') results.set(id, state);
      return result;
    });
  }

  const { saveStep } = steps;
  return {
    ...createOperations(steps),

    durable: steps.durable,

    async claim(event, { leaseMs, origin, json, early = false, key }) {
      const token = uuid();
      const step = { ...toNew(event, json, key), token, leaseMs, origin, early };
      const { result: state, attempts, wait } = await steps.claim(step);
      if (state === 'claimed') {
        return { state, lease: { id: event.id, token, attempt: Number(attempts), key } };
      }
      if (state === 'done' || state === 'dead') return { state };
      return { state, retryAfterMs: Math.max(1, Number(wait ?? 0)) };
    },

    complete: async (lease) => (await steps.finish(lease, DONE)) !== false,

    fail(lease, { retryAfterMs, later, ...failure }) {
      const ended = retryAfterMs === null ? 'dead' : 'failed';
      const result = later === undefined ? ended : 'later';
      const error = toStorable(failure.error);
      return steps.finish(lease, { result, retryAfterMs, error, maxAgeMs: later?.maxAgeMs ?? null });
    },

    ...(steps.transaction && { transaction: steps.transaction }),

    ...(saveStep && {
      saveStep,
      async readSteps({ id, token }) {
        const rows = await steps.steps(id, token);
        return rows.length === 0 ? null : toSteps(rows);
      },
    }),

    record: (events, options) => store(events, options, options.dueInMs === null ? 'parked' : 'received'),

    ignore: (events, options) => store(events, { ...options, dueInMs: null }, 'done'),

    takeDue: steps.takeDue,

    readNote: steps.readNote,
    writeNote: steps.writeNote,
    leaseNote: steps.leaseNote,
  };
}

function toNew(event: UnknownEvent, json = encodeEvent(event), key?: string): NewEvent {
  const { id, type } = event;
  return key === undefined
    ? { id, type, json, key: null, createdMs: null }
    : { id, type, json, key, createdMs: createdAtMs(event) };
}
