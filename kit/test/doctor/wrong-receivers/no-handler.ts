import { createListener } from './stablehooks-receiver.js';
import type { WrongReceiver } from './wrong-receiver.js';

/** Has no handler, so it answers 200 and does nothing. */
export const noHandler: WrongReceiver = (secret) => createListener({ secret, handlers: {} });
