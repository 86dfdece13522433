/** Wrong: waits for ever, and never answers. */
import type { WrongReceiver } from './wrong-receiver.js';

export const hangs: WrongReceiver = () => () => undefined;
