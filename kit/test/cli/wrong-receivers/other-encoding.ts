/** Wrong: compares the text of the signature, and with that of another encoding. */
import { createPlainReceiver, hmac, takeOnce, type WrongReceiver } from './wrong-receiver.js';

export const otherEncoding: WrongReceiver = (secret) =>
  createPlainReceiver({
    authentic: (body, signature) => signature === hmac(secret, body, 'base64'),
    take: takeOnce,
  });
