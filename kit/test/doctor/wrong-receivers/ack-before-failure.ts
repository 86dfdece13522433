import { createPlainReceiver, takeOnce, verifyRaw, type WrongReceiver } from './wrong-receiver.js';

/** Answers 200 before it works. If the work fails, as it does for one event, that is not delivered again. */
export const ackBeforeFailure: WrongReceiver = (secret) =>
  createPlainReceiver({
    authentic: verifyRaw(secret),
    take(id, ledger) {
      setImmediate(() => {
        if (!id.endsWith('_failing-handler')) takeOnce(id, ledger);
      });
    },
  });
