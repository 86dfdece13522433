import { createPlainReceiver, verifyRaw, type WrongReceiver } from './wrong-receiver.js';

/** Checks whether the event is known, and records it later: concurrent deliveries both find it new. */
export const checkThenInsert: WrongReceiver = (secret) => {
  const known = new Set<string>();
  let waiting = 0;
  let overlap = () => {};
  const overlapped = new Promise<void>((resolve) => {
    overlap = resolve;
  });
  return createPlainReceiver({
    authentic: verifyRaw(secret),
    async take(id, ledger) {
      if (known.has(id)) return;
      // Of the event that doctor delivers concurrently, the first delivery waits here for a second one.
      if (id.endsWith('_concurrent')) {
        waiting += 1;
        if (waiting === 2) overlap();
        await overlapped;
      }
      ledger.apply(id);
      known.add(id);
    },
  });
};
