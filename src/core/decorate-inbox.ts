import type { Inbox } from './ports.js';

/** An inbox with some members replaced. Other members are called on the inbox itself, which may be a class. */
export function decorateInbox<Tx>(inbox: Inbox<Tx>, replaced: Partial<Inbox<Tx>>): Inbox<Tx> {
  const { transaction, readSteps, saveStep } = inbox;
  return {
    durable: inbox.durable,
    claim: (event, options) => inbox.claim(event, options),
    ignore: (events, options) => inbox.ignore(events, options),
    complete: (lease) => inbox.complete(lease),
    fail: (lease, options) => inbox.fail(lease, options),
    record: (events, options) => inbox.record(events, options),
    takeDue: (options) => inbox.takeDue(options),
    readNote: (name) => inbox.readNote(name),
    writeNote: (...note) => inbox.writeNote(...note),
    leaseNote: (name, options) => inbox.leaseNote(name, options),
    ...(transaction && { transaction: (lease, effect) => transaction.call(inbox, lease, effect) }),
    ...(readSteps && { readSteps: (lease) => readSteps.call(inbox, lease) }),
    ...(saveStep && { saveStep: (...step) => saveStep.apply(inbox, step) }),
    ...replaced,
  };
}
