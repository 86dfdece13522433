/** Wrong: looks whether the event is known, and records it later: two at once both find it new. */
import { setImmediate } from 'node:timers/promises';
import { createPlainReceiver, verifyRaw, type WrongReceiver } from './wrong-receiver.js';

export const checkThenInsert: WrongReceiver = (secret) => {
  const known = new Set<string>();
  return createPlainReceiver({
    authentic: verifyRaw(secret),
    async take(id, ledger) {
      if (known.has(id)) return;
      for (let turn = 0; turn < 50; turn++) await setImmediate();
      ledger.apply(id);
      known.add(id);
    },
  });
};
