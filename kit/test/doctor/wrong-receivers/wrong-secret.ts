import { createListener } from './stablehooks-receiver.js';
import type { WrongReceiver } from './wrong-receiver.js';

/** Has the secret of another endpoint. */
export const wrongSecret: WrongReceiver = () => createListener({ secret: 'whsec_of_another_endpoint' });
