/** The Pages Router, answering once an event is recorded. The handler waits for `GET`, which names those that ended. */
import { createReceiver, memoryInbox } from 'stablehooks';
import { toNextApiRoute } from 'stablehooks/next';

export const config = { api: { bodyParser: false } };

const ended = [];
let release = () => undefined;
const released = new Promise((resolve) => {
  release = resolve;
});

const handler = toNextApiRoute(
  createReceiver({
    secret: 'contract-secret-old',
    answer: 'recorded',
    inbox: { ...memoryInbox(), durable: true },
    handlers: {
      'transfer.settled': async (event) => {
        await released;
        ended.push(event.id);
      },
    },
  }),
);

export default function route(request, response) {
  if (request.method === 'POST') return handler(request, response);
  release();
  response.json(ended);
}
