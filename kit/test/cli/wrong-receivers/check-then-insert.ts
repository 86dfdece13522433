/** Wrong: looks whether the event is known, and records it later: two at once both find it new. */
import { setTimeout as pause } from 'node:timers/promises';
import { createPlainReceiver, verifyRaw, type WrongReceiver } from './wrong-receiver.js';

export const checkThenInsert: WrongReceiver = (secret) => {
  const known = new Set<string>();
  return createPlainReceiver({
    authentic: verifyRaw(secret),
    async take(id, ledger) {
      if (known.has(id)) return;
      // A store this slow is the fault itself: whoever asks meanwhile is told that the event is new.
      await pause(250);
      ledger.apply(id);
      known.add(id);
    },
  });
};
