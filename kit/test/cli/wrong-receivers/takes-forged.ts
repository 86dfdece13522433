/** Wrong: verifies nothing. */
import { createPlainReceiver, takeOnce, type WrongReceiver } from './wrong-receiver.js';

export const takesForged: WrongReceiver = () =>
  createPlainReceiver({ authentic: () => true, take: takeOnce });
