/** Wrong: verifies the JSON that it wrote itself, which is the signed one only by luck. */
import { createPlainReceiver, hmac, takeOnce, type WrongReceiver } from './wrong-receiver.js';

export const reStringifiedBody: WrongReceiver = (secret) =>
  createPlainReceiver({
    authentic: (body, signature) => signature === hmac(secret, JSON.stringify(JSON.parse(body.toString()))),
    take: takeOnce,
  });
