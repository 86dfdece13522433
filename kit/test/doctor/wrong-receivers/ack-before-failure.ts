import { createPlainReceiver, verifyRaw, type WrongReceiver } from './wrong-receiver.js';

/** Answers 200 before it works. If the work fails, the event is not delivered again. */
export const ackBeforeFailure: WrongReceiver = (secret) =>
  createPlainReceiver({
    authentic: verifyRaw(secret),
    take() {
      setImmediate(() => Promise.reject(new Error('the work failed')).catch(() => undefined));
    },
  });
