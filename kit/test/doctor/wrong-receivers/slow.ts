import { setTimeout as wait } from 'node:timers/promises';
import { createPlainReceiver, takeOnce, verifyRaw, type WrongReceiver } from './wrong-receiver.js';

/** How long the work takes, in ms. */
export const WORK_MS = 8_000;

/** Does its work before it answers, and the work is slow. */
export const slow: WrongReceiver = (secret) =>
  createPlainReceiver({
    authentic: verifyRaw(secret),
    async take(id, ledger) {
      await wait(WORK_MS);
      takeOnce(id, ledger);
    },
  });
