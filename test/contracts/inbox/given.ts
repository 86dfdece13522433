/** Shared by the cases of the inbox suite: an inbox with defaults, events and clocks. */
import assert from 'node:assert/strict';
import type {
  Claim,
  ClaimOptions,
  Inbox,
  InboxOperations,
  InboxRecord,
  Lease,
  StoreOptions,
  UnknownEvent,
} from 'stablehooks';
import { type ContractCase, someEvent } from '../contract.js';

type AnyInbox = Inbox<unknown> & InboxOperations;
type Events = readonly UnknownEvent[];

/** An empty inbox, seen through two connections. Every case needs a new one. */
export interface InboxUnderTest {
  readonly inbox: AnyInbox;
  /** The same inbox over another connection; the same object where an inbox has no connections. */
  readonly second: AnyInbox;
}

export const HOUR_MS = 3_600_000;
export const TYPE = 'transfer.settled';
export const TAKE = { limit: 1_000, visibilityTimeoutMs: HOUR_MS, types: [TYPE] } as const;

/** The inbox with defaults. Each call goes over the other connection than the call before. */
export class TestedInbox {
  readonly #connections: readonly [AnyInbox, AnyInbox];
  #calls = 0;

  constructor({ inbox, second }: InboxUnderTest) {
    this.#connections = [inbox, second];
  }

  get port(): AnyInbox {
    this.#calls += 1;
    const [inbox, second] = this.#connections;
    return this.#calls % 2 ? inbox : second;
  }

  async claim(event: UnknownEvent, options: Partial<ClaimOptions> = {}): Promise<Claim> {
    return this.port.claim(event, { leaseMs: HOUR_MS, origin: 'push', ...options });
  }

  /** Claims the event, and fails when the claim is not answered `claimed`. */
  async claimed(event: UnknownEvent, options: Partial<ClaimOptions> = {}): Promise<Lease> {
    const claim = await this.claim(event, options);
    assert.ok(claim.state === 'claimed', `The claim of ${event.id} was answered ${claim.state}.`);
    return claim.lease;
  }

  /** Records the events as due. */
  async record(events: Events, options: Partial<Parameters<Inbox['record']>[1]> = {}) {
    return this.port.record(events, { dueInMs: 0, origin: 'pull', ...options });
  }

  async ignore(events: Events, options: Partial<StoreOptions> = {}) {
    return this.port.ignore(events, { origin: 'pull', ...options });
  }

  async takeDue(options: Partial<Parameters<Inbox['takeDue']>[0]> = {}): Promise<UnknownEvent[]> {
    return (await this.port.takeDue({ ...TAKE, ...options })).map(({ json }) => JSON.parse(json));
  }

  /** The record; fails when the inbox does not have the event. */
  async find({ id }: { readonly id: string }): Promise<InboxRecord> {
    const record = await this.port.find(id);
    assert.ok(record, `The inbox does not have ${id}.`);
    return record;
  }
}

export const test = (
  name: string,
  run: (inbox: TestedInbox) => Promise<void>,
): ContractCase<InboxUnderTest> => ({ name, run: (subject) => run(new TestedInbox(subject)) });

/** Events with unique ids that were created at the same time. */
export const someEvents = (count: number, overrides: Partial<UnknownEvent> = {}): Events =>
  Array.from({ length: count }, () => someEvent(overrides));

/** Names that a database can easily confuse. */
export const ODD_NAMES = "evt|EVT|evt | evt|évt|e\u0301vt|evt'; --|evt%|evt_|{evt}|evt:*".split('|');

/** Random, because an index can compress repeated bytes. */
export const textOf512Bytes = () =>
  Buffer.from(crypto.getRandomValues(new Uint8Array(384))).toString('base64url');

export const sortedIds = (events: readonly { readonly id: string }[]) =>
  events.map(({ id }) => id).toSorted();

/** Calls the task with 0, 1, 2 … at the same time. */
export const simultaneously = <Answer>(count: number, task: (index: number) => Answer | Promise<Answer>) =>
  Promise.all(Array.from({ length: count }, async (_, index) => task(index)));

/** Lets everything else run: an inbox in memory answers without that. */
export const otherTurn = () => new Promise<void>((resolve) => setImmediate(resolve));

/** Repeats `step` until it returns a value; fails after 30 s, because a broken inbox must not keep a case running. */
export async function until<Value>(
  message: string,
  step: () => Value | undefined | Promise<Value | undefined>,
): Promise<Value> {
  for (const deadline = Date.now() + 30_000; ; await otherTurn()) {
    const value = await step();
    if (value !== undefined) return value;
    assert.ok(Date.now() < deadline, message);
  }
}
