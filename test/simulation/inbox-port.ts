/** The inbox as one process sees it: behind a network and a disk that can be slow, fail, or lose an answer. */
import type { Inbox, Lease } from 'stablehooks';
import type { Attempt, Promises } from './promises.js';
import type { Scenario } from './scenario.js';
import { type Process, toText, type World } from './world.js';

/** The effect that a handler writes in its transaction. */
export interface Transaction {
  write(attempt: Attempt): Promise<void>;
}

export type Store = Omit<Inbox, 'transaction'>;

interface Port {
  readonly world: World;
  readonly promises: Promises;
  readonly process: Process;
  /** The store, which all processes share. */
  readonly inbox: Store;
  readonly scenario: Scenario;
}

interface Call<Answer> {
  readonly what: string;
  readonly id?: string | undefined;
  readonly effect: () => Answer | Promise<Answer>;
  /** Called in the turn of the effect, with what the store answered. */
  readonly onEffect: (answer: Answer) => void;
  /** The attempt that has no mark if the call fails before its effect. */
  readonly lease?: Lease | undefined;
}

export function toInboxPort(port: Port): Store {
  const { inbox, promises, process, scenario } = port;
  const call = <Answer>(given: Call<Answer>) =>
    scenario.inbox === 'plain' ? callNow(port, given) : callInbox(port, given);
  const idOf = ([first, ...others]: readonly { readonly id: string }[]) =>
    others.length === 0 ? first?.id : undefined;
  return {
    durable: scenario.inbox !== 'plain',
    claim: (event, options) =>
      call({
        what: 'claim',
        id: event.id,
        effect: () => inbox.claim(event, options),
        onEffect: (claim) => promises.claimed(process, event, options, claim),
      }),
    ignore: (events, options) =>
      call({
        what: `ignore ${events.length}`,
        id: idOf(events),
        effect: () => inbox.ignore(events, options),
        onEffect: (results) => promises.ignored(process, events, results),
      }),
    complete: (lease) =>
      call({
        what: 'complete',
        id: lease.id,
        effect: () => inbox.complete(lease),
        onEffect: (isCompleted) => promises.completed(lease, isCompleted),
        lease,
      }),
    fail: (lease, options) =>
      call({
        what: 'fail',
        id: lease.id,
        effect: () => inbox.fail(lease, options),
        onEffect: (isFailed) => promises.failed(lease, options, isFailed),
        lease,
      }),
    readSteps: (lease) =>
      call({
        what: 'readSteps',
        id: lease.id,
        effect: () => inbox.readSteps?.(lease) ?? null,
        onEffect: () => undefined,
      }),
    saveStep: (lease, name, result) =>
      call({
        what: `saveStep ${name}`,
        id: lease.id,
        effect: () => inbox.saveStep?.(lease, name, result) ?? false,
        onEffect: (isSaved) => promises.stepSaved(lease, isSaved),
      }),
    record: (events, options) =>
      call({
        what: `record ${events.length}`,
        id: idOf(events),
        effect: () => inbox.record(events, options),
        onEffect: (results) => promises.recorded(events, options, results),
      }),
    takeDue: (options) =>
      call({
        what: 'takeDue',
        effect: () => inbox.takeDue(options),
        onEffect: (taken) => promises.taken(process, taken, options),
      }),
    readNote: (name) =>
      call({
        what: `readNote ${name}`,
        effect: () => inbox.readNote(name),
        onEffect: () => undefined,
      }),
    writeNote: (name, text, fence) =>
      call({
        what: `writeNote ${name}`,
        effect: () => inbox.writeNote(name, text, fence),
        onEffect: (isSaved) => promises.pollSaved(text, fence, isSaved),
      }),
    leaseNote: (name, options) =>
      call({
        what: `leaseNote ${name}`,
        effect: () => inbox.leaseNote(name, options),
        onEffect: (isLeased) => promises.pollLeased(options.holder, options.leaseMs, isLeased),
      }),
  };
}

/** The same with a transaction: the effects of a handler and the mark of its event are committed in one step. */
export function toTransactionalPort(port: Port): Inbox<Transaction> {
  const { world, inbox, promises, process, scenario } = port;
  return {
    ...toInboxPort(port),
    async transaction(lease, effect) {
      await world.hop(process, 'begins a transaction', lease.id);
      if (world.strikes('inboxFails', scenario.faults.inboxFails)) {
        promises.notMarked(lease);
        throw new Error(LOST);
      }
      const written: Attempt[] = [];
      let isOpen = true;
      const write = async (attempt: Attempt) => {
        await world.hop(process, 'writes in its transaction', lease.id);
        if (!isOpen) throw new Error('The transaction has ended.');
        written.push(attempt);
      };
      try {
        await effect({ write });
      } catch (error) {
        isOpen = false;
        promises.transactionEnds(lease, false);
        await world.hop(process, 'rolls back', lease.id);
        throw error;
      }
      isOpen = false;
      promises.transactionEnds(lease, true);
      return await callInbox(port, {
        what: 'commit',
        id: lease.id,
        effect: () => inbox.complete(lease),
        onEffect: (isCompleted) => {
          if (isCompleted) for (const attempt of written) promises.takesEffect(attempt);
          promises.completed(lease, isCompleted);
        },
        lease,
      });
    },
  };
}

const LOST = 'The connection was lost.';

async function callInbox<Answer>(port: Port, call: Call<Answer>): Promise<Answer> {
  const { world, promises, process, scenario } = port;
  const { what, id, lease } = call;
  await world.hop(process, `asks the inbox: ${what}`, id);
  if (process.isCutOff) return await new Promise(() => undefined);
  if (world.strikes('inboxFails', scenario.faults.inboxFails)) {
    if (lease !== undefined) promises.notMarked(lease);
    await world.hop(process, `the inbox fails, nothing is done: ${what}`, id);
    throw new Error(LOST);
  }
  const answer = await world.effect(async () => {
    try {
      return takeEffect(port, call, await call.effect());
    } catch (error) {
      throw unexpected(port, call, error);
    }
  });
  if (world.strikes('inboxAnswerLost', scenario.faults.inboxAnswerLost)) {
    await world.hop(process, `the answer of the inbox is lost: ${what}`, id);
    throw new Error(LOST);
  }
  await world.hop(process, `the inbox answers: ${what}`, id);
  return answer;
}

/** The same for an inbox in the memory of the process: it answers immediately, and so do its failures. */
function callNow<Answer>(port: Port, call: Call<Answer>): Answer | Promise<Answer> {
  const { world, promises, process, scenario } = port;
  if (process.isCutOff) return new Promise(() => undefined);
  // The turn of a violation is the last one, and an inbox that answers immediately must let it end.
  if (world.violation !== undefined) throw new Error(LOST);
  if (world.strikes('inboxFails', scenario.faults.inboxFails)) {
    if (call.lease !== undefined) promises.notMarked(call.lease);
    world.note(process, `the inbox fails, nothing is done: ${call.what}`, call.id);
    throw new Error(LOST);
  }
  let answer: Answer | Promise<Answer>;
  try {
    answer = call.effect();
  } catch (error) {
    throw unexpected(port, call, error);
  }
  if (answer instanceof Promise) throw unexpected(port, call, 'It answers with a promise.');
  return takeEffect(port, call, answer);
}

function takeEffect<Answer>({ world, process }: Port, { what, id, onEffect }: Call<Answer>, answer: Answer) {
  onEffect(answer);
  world.note(process, `takes effect: ${what} -> ${describe(answer)}`, id);
  return answer;
}

/** An error of the store itself. */
function unexpected(
  { world }: Port,
  { what, id }: Pick<Call<never>, 'what' | 'id'>,
  error: unknown,
): unknown {
  world.violate('an inbox fails only when its connection does', `${what}: ${toText(error)}`, id);
  return error;
}

function describe(answer: unknown): string {
  if (typeof answer !== 'object' || answer === null) return String(answer);
  if (Array.isArray(answer)) {
    return answer.map((each) => (typeof each === 'string' ? each : each.event?.id)).join(' ') || 'nothing';
  }
  return 'state' in answer ? String(answer.state) : JSON.stringify(answer);
}
