/** Shared by the processes that the kill tests start. */
import { createReceiver, type Inbox, type ReceiverOptions } from 'stablehooks';
import { silent } from './claimed.js';

/** Short, so that a killed event runs again soon. */
const LEASE_MS = 1_000;

/** Handles what is due from the first message on, and reports when it is ready and when its first handler begins. */
export function workUntilKilled<Tx>(
  inbox: Inbox<Tx>,
  handler: NonNullable<ReceiverOptions<Tx>['handlers']['transfer.settled']>,
): void {
  let started = false;
  const receiver = createReceiver({
    ...{ secret: 'kills', inbox, logger: silent },
    leaseMs: LEASE_MS,
    handlerTimeoutMs: LEASE_MS - 1,
    // Every kill in the middle of an attempt counts as one.
    maxAttempts: 10_000,
    handlers: {
      'transfer.settled': (event, context) => {
        if (!started) process.send?.('started');
        started = true;
        return handler(event, context);
      },
    },
  });
  // An inbox that fails, as a locked file does, must not end the process.
  process.once('message', () => receiver.start({ intervalMs: 5 }));
  process.on('disconnect', () => process.exit());
  process.send?.('ready');
}
