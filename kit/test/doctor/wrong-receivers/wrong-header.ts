import { createListener } from './stablehooks-receiver.js';
import type { WrongReceiver } from './wrong-receiver.js';

/** Reads the signature from a header that the service does not send. */
export const wrongHeader: WrongReceiver = (secret) =>
  createListener({ secret, signature: { header: 'x-acme-digest' } });
