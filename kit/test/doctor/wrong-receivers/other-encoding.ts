import { createPlainReceiver, hmac, takeOnce, type WrongReceiver } from './wrong-receiver.js';

/** Compares the string of the signature, and with another encoding. */
export const otherEncoding: WrongReceiver = (secret) =>
  createPlainReceiver({
    authentic: (body, signature) => signature === hmac(secret, body, 'base64'),
    take: takeOnce,
  });
