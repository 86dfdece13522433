/** The Edge runtime, answering once an event is recorded. The handler waits for `GET`, which names those that ended. */
import { after } from 'next/server';
import { createReceiver, memoryInbox } from 'stablehooks';
import { toNextRoute } from 'stablehooks/next';

export const runtime = 'edge';

const ended = [];
let release = () => undefined;
const released = new Promise((resolve) => {
  release = resolve;
});

export const { POST } = toNextRoute(
  createReceiver({
    secret: 'contract-secret-old',
    answer: 'recorded',
    // No database of the tests can be reached from here.
    inbox: { ...memoryInbox(), durable: true },
    handlers: {
      'transfer.settled': async (event) => {
        await released;
        ended.push(event.id);
      },
    },
  }),
  { after },
);

export function GET() {
  release();
  return Response.json(ended);
}
