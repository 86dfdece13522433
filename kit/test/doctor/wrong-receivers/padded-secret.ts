import { createListener } from './stablehooks-receiver.js';
import type { WrongReceiver } from './wrong-receiver.js';

/** Gets its secret from a file that ends with a newline. */
export const paddedSecret: WrongReceiver = (secret) => createListener({ secret: async () => `${secret}\n` });
