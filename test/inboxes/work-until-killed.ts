/** Shared by the processes that the kill tests start. */
import { createReceiver, type Inbox, type ReceiverOptions, type UnknownEvent } from 'stablehooks';
import { silent } from './claimed.js';

/** Short, so that a killed event runs again soon. */
const LEASE_MS = 1_000;

/** Handles what is due from the message `begin` on, and the events that it is sent; reports when it is ready, when its first handler begins, and each outcome. */
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
  process.on('message', async (message: 'begin' | UnknownEvent) => {
    // An inbox that fails, as a locked file does, must not end the process.
    if (message === 'begin') return receiver.start({ intervalMs: 5 });
    const { kind } = await receiver.accept(message, 'push');
    process.send?.({ id: message.id, kind });
  });
  process.on('disconnect', () => process.exit());
  process.send?.('ready');
}
