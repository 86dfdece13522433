/** The inbox as one process sees it. */
import type { Inbox } from 'stablehooks';
import { type Call, callInbox, callNow, type Port } from './inbox-call.js';
import { Transaction } from './transaction.js';
import type { Store, TransactionalStore } from './transactional-store.js';

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
        onEffect: (steps) => steps !== null && promises.stepsRead(lease),
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
        onEffect: (isSaved) => {
          if (name === 'poll') promises.pollSaved(text, fence, isSaved);
        },
      }),
    leaseNote: (name, options) =>
      call({
        what: `leaseNote ${name}`,
        effect: () => inbox.leaseNote(name, options),
        onEffect: (isLeased) => {
          if (name === 'poll') promises.pollLeased(options.holder, options.leaseMs, isLeased);
        },
      }),
  };
}

/** The same with transactions: the effects of a handler and the mark of its event are committed in one step. */
export function toTransactionalPort(port: Port<TransactionalStore>): Inbox<Transaction> {
  return {
    ...toInboxPort(port),

    firstLease(event, { json = JSON.stringify(event), ...first }) {
      const { id, type } = event;
      return { id, token: port.process.uuid(), attempt: 1, first: { type, json, ...first } };
    },

    async transaction(lease, effect) {
      const transaction = new Transaction(port, lease);
      if (!(await transaction.begin())) return false;
      try {
        await Promise.race([effect(transaction), transaction.lost]);
      } catch (error) {
        await transaction.rollBack();
        throw error;
      }
      return await transaction.commit();
    },
  };
}
