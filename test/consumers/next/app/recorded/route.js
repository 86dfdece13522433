/**
 * Answers once an event is recorded, in a file that the next process opens as well. The handler waits for `GET ?release`,
 * and notes its end in a file.
 */
import { appendFileSync } from 'node:fs';
import Database from 'libsql';
import { after } from 'next/server';
import { createReceiver } from 'stablehooks';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { toNextRoute } from 'stablehooks/next';

const leaseMs = Number(process.env.LEASE_MS ?? 60_000);
let release = () => undefined;
const released = new Promise((resolve) => {
  release = resolve;
});

let made;
/** Made at the first request: the processes of a build must not open the file. */
const receiver = () => {
  made ??= createReceiver({
    secret: 'contract-secret-old',
    answer: 'recorded',
    inbox: sqliteInbox(new Database('recorded.sqlite')),
    leaseMs,
    handlerTimeoutMs: leaseMs / 2,
    handlers: {
      'transfer.settled': async (event) => {
        await released;
        appendFileSync('ended.txt', `${event.id}\n`);
      },
    },
  });
  return made;
};

export const { POST } = toNextRoute(receiver, { after });

export async function GET(request) {
  const { searchParams } = new URL(request.url);
  if (searchParams.has('release')) release();
  if (searchParams.has('redrive')) await receiver().redrive();
  return new Response('ok');
}
