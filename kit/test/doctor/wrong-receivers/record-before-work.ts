import { createPlainReceiver, verifyRaw, type WrongReceiver } from './wrong-receiver.js';

/** Records the event as done before the work, so that a failed event is never run again. */
export const recordBeforeWork: WrongReceiver = (secret) =>
  createPlainReceiver({
    authentic: verifyRaw(secret),
    take(id, ledger) {
      if (ledger.has(id)) return;
      ledger.apply(id);
      if (id.endsWith('failing-handler')) throw new Error('the work failed');
    },
  });
