import { createPlainReceiver, takeOnce, type WrongReceiver } from './wrong-receiver.js';

/** Does not verify. */
export const takesForged: WrongReceiver = () =>
  createPlainReceiver({ authentic: () => true, take: takeOnce });
