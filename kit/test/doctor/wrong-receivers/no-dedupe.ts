import { createPlainReceiver, verifyRaw, type WrongReceiver } from './wrong-receiver.js';

/** Runs each delivery, also the second one of the same event. */
export const noDedupe: WrongReceiver = (secret) =>
  createPlainReceiver({ authentic: verifyRaw(secret), take: (id, ledger) => ledger.apply(id) });
