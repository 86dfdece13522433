import express from 'express';
import { answer, hmac, signatureOf, type WrongReceiver } from './wrong-receiver.js';

/** Mounts `express.json()` first, and waits for an `end` event that was emitted before. */
export const parserFirstHanging: WrongReceiver = (secret) => {
  const app = express();
  app.use(express.json());
  app.post('/hooks', (request, response) => {
    const pieces: Buffer[] = [];
    request.on('data', (piece: Buffer) => pieces.push(piece));
    request.on('end', () => {
      const genuine = signatureOf(request) === hmac(secret, Buffer.concat(pieces));
      answer(response, genuine ? 200 : 401);
    });
  });
  return app;
};
