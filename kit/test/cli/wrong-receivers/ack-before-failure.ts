/** Wrong: says 200 first and works after that; when the work fails, nobody delivers the event again. */
import { createPlainReceiver, verifyRaw, type WrongReceiver } from './wrong-receiver.js';

export const ackBeforeFailure: WrongReceiver = (secret) =>
  createPlainReceiver({
    authentic: verifyRaw(secret),
    take() {
      setImmediate(() => Promise.reject(new Error('the work failed')).catch(() => undefined));
    },
  });
