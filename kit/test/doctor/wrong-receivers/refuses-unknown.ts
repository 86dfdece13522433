import { createPlainReceiver, takeOnce, verifyRaw, type WrongReceiver } from './wrong-receiver.js';

/** Answers 500 to event types that are newer than itself. */
export const refusesUnknown: WrongReceiver = (secret) =>
  createPlainReceiver({
    authentic: verifyRaw(secret),
    take: takeOnce,
    takeUnknown() {
      throw new Error('unknown type');
    },
  });
