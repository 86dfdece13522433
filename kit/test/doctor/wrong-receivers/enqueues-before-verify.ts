import { createPlainReceiver, takeOnce, verifyRaw, type WrongReceiver } from './wrong-receiver.js';

/** Puts an event into a queue before it verifies the signature: what it refuses has its effect a little later. */
export const enqueuesBeforeVerify: WrongReceiver = (secret) =>
  createPlainReceiver({
    authentic: verifyRaw(secret),
    take: takeOnce,
    takeForged: (id, ledger) => void setTimeout(() => takeOnce(id, ledger), 200),
  });
