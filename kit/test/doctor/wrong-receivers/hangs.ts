import type { WrongReceiver } from './wrong-receiver.js';

/** Never answers. */
export const hangs: WrongReceiver = () => () => undefined;
