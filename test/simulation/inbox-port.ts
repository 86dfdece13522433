/** The inbox as one process sees it: behind a network and a disk that can be slow, fail, or lose an answer. */
import type { Claim, Inbox, InboxOperations, Lease } from 'stablehooks';
import type { Attempt, Promises } from './promises.js';
import type { Faults } from './scenario.js';
import { type Process, toText, type World } from './world.js';

/** What a handler in a transaction writes: its effect. */
export interface Transaction {
  write(attempt: Attempt): Promise<void>;
}

interface Port {
  readonly world: World;
  readonly promises: Promises;
  readonly process: Process;
  /** The store, which all processes share. */
  readonly inbox: Omit<Inbox, 'transaction'> & Pick<InboxOperations, 'find'>;
  readonly faults: Partial<Faults>;
}

/** One call of the inbox. */
interface Call<Answer> {
  readonly what: string;
  readonly id?: string | undefined;
  readonly effect: () => Promise<Answer>;
  /** Called in the turn of the effect, with what the store answered. */
  readonly onEffect: (answer: Answer) => void;
  /** Called when the call failed before its effect. */
  readonly onFailure?: (() => void) | undefined;
}

export function toInboxPort(port: Port): Omit<Inbox, 'transaction'> & Pick<InboxOperations, 'find'> {
  const { inbox, promises, process } = port;
  const call = <Answer>(given: Call<Answer>) => callInbox(port, given);
  return {
    durable: true,
    claim: (event, options) =>
      call({
        what: 'claim',
        id: event.id,
        effect: () => inbox.claim(event, options),
        onEffect: (claim: Claim) => promises.claimed(process, event, options, claim),
      }),
    complete: (lease) =>
      call({
        what: 'complete',
        id: lease.id,
        effect: () => inbox.complete(lease),
        onEffect: (isCompleted) => promises.completed(lease, isCompleted),
        onFailure: () => promises.notMarked(lease),
      }),
    fail: (lease, options) =>
      call({
        what: 'fail',
        id: lease.id,
        effect: () => inbox.fail(lease, options),
        onEffect: (isFailed) => promises.failed(lease, options.retryAfterMs, isFailed),
        onFailure: () => promises.notMarked(lease),
      }),
    record: (events, options) =>
      call({
        what: `record ${events.length}`,
        id: events.length === 1 ? events[0]?.id : undefined,
        effect: () => inbox.record(events, options),
        onEffect: (results) => promises.recorded(events, options, results),
      }),
    find: (id) => call({ what: 'find', id, effect: () => inbox.find(id), onEffect: () => undefined }),
    takeDue: (options) =>
      call({
        what: 'takeDue',
        effect: () => inbox.takeDue(options),
        onEffect: (events) => promises.taken(events, options),
      }),
    acquirePoll: (options) =>
      call({
        what: 'acquirePoll',
        effect: () => inbox.acquirePoll(options),
        onEffect: (state) => promises.pollAcquired(options.holder, options.leaseMs, state),
      }),
    savePoll: (state, options) =>
      call({
        what: 'savePoll',
        effect: () => inbox.savePoll(state, options),
        onEffect: (isSaved) => promises.pollSaved(state, options, isSaved),
      }),
  };
}

/** The same with a transaction: the effects of a handler and the mark of its event are committed in one step. */
export function toTransactionalPort(port: Port): Inbox<Transaction> {
  const { world, inbox, promises, process } = port;
  return {
    ...toInboxPort(port),
    async transaction(lease, effect) {
      await world.hop(process, 'begins a transaction', lease.id);
      if (world.strikes('inboxFails', port.faults.inboxFails)) throw failure(promises, lease);
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
        await world.hop(process, 'rolls back', lease.id);
        throw error;
      }
      isOpen = false;
      return await callInbox(port, {
        what: 'commit',
        id: lease.id,
        effect: () => inbox.complete(lease),
        onEffect: (isCompleted) => {
          if (isCompleted) for (const attempt of written) promises.takesEffect(attempt);
          promises.completed(lease, isCompleted);
        },
        onFailure: () => promises.notMarked(lease),
      });
    },
  };
}

/** A transaction that cannot begin: its event stays leased until the lease lapses. */
function failure(promises: Promises, lease: Lease): Error {
  promises.notMarked(lease);
  return new Error('The connection was lost.');
}

async function callInbox<Answer>(
  { world, process, faults }: Port,
  { what, id, effect, onEffect, onFailure }: Call<Answer>,
): Promise<Answer> {
  await world.hop(process, `asks the inbox: ${what}`, id);
  if (process.isCutOff) return await new Promise(() => undefined);
  if (world.strikes('inboxFails', faults.inboxFails)) {
    onFailure?.();
    await world.hop(process, `the inbox fails, nothing is done: ${what}`, id);
    throw new Error('The connection was lost.');
  }
  const answer = await world.effect(async () => {
    const given = await effect().catch((error: unknown) => {
      world.violate('an inbox fails only when its connection does', `${what}: ${toText(error)}`, id);
      throw error;
    });
    onEffect(given);
    return given;
  });
  world.note(process, `takes effect: ${what} -> ${describe(answer)}`, id);
  if (world.strikes('inboxAnswerLost', faults.inboxAnswerLost)) {
    await world.hop(process, `the answer of the inbox is lost: ${what}`, id);
    throw new Error('The connection was lost.');
  }
  await world.hop(process, `the inbox answers: ${what}`, id);
  return answer;
}

function describe(answer: unknown): string {
  if (typeof answer !== 'object' || answer === null) return String(answer);
  if (Array.isArray(answer)) {
    return answer.map((each) => (typeof each === 'string' ? each : each.event?.id)).join(' ') || 'nothing';
  }
  return 'state' in answer ? String(answer.state) : 'state of the poller';
}
