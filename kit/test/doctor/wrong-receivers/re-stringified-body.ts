import { createPlainReceiver, hmac, takeOnce, type WrongReceiver } from './wrong-receiver.js';

/** Verifies JSON that it serialized itself. */
export const reStringifiedBody: WrongReceiver = (secret) =>
  createPlainReceiver({
    authentic: (body, signature) => signature === hmac(secret, JSON.stringify(JSON.parse(body.toString()))),
    take: takeOnce,
  });
