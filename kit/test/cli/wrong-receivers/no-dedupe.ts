/** Wrong: each delivery takes effect, and deliveries come twice. */
import { createPlainReceiver, verifyRaw, type WrongReceiver } from './wrong-receiver.js';

export const noDedupe: WrongReceiver = (secret) =>
  createPlainReceiver({ authentic: verifyRaw(secret), take: (id, ledger) => ledger.apply(id) });
