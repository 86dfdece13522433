import { answer, createPlainReceiver, takeOnce, verifyRaw, type WrongReceiver } from './wrong-receiver.js';

/** Has its receiver at `/api/webhooks`, and answers 404 elsewhere. */
export const wrongPath: WrongReceiver = (secret) => {
  const receive = createPlainReceiver({ authentic: verifyRaw(secret), take: takeOnce });
  return (request, response) =>
    request.url === '/api/webhooks' ? receive(request, response) : answer(response, 404);
};
