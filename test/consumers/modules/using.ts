/** Where the `lib` has `Symbol.asyncDispose`, a receiver ends with its block. */
import { createReceiver } from 'stablehooks';
import type { Poller } from 'stablehooks/catch-up';

export async function use(poller: Poller): Promise<void> {
  await using receiver = createReceiver({ secret: 's', handlers: {} });
  await using polling = poller;
  console.log(receiver, polling);
}
