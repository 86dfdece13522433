/** Wrong: `express.json()` stands in front, so that no bytes are left to verify; it waits for them for ever. */
import express from 'express';
import { answer, hmac, readBody, signatureOf, type WrongReceiver } from './wrong-receiver.js';

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
