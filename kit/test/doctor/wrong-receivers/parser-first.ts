import express from 'express';
import { answer, hmac, readBody, signatureOf, type WrongReceiver } from './wrong-receiver.js';

/** Mounts `express.json()` first, so that no bytes are left to verify. */
export const parserFirst: WrongReceiver = (secret) => {
  const app = express();
  app.use(express.json());
  app.post('/hooks', async (request, response) => {
    const body = (await readBody(request)) ?? Buffer.alloc(0);
    if (signatureOf(request) !== hmac(secret, body)) return answer(response, 401);
    answer(response, 200, 'ok');
  });
  return app;
};
