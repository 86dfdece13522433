/** The process that `transaction-kills.test.ts` kills: handles what is due in the inbox, over one data layer. */
import { setTimeout as pause } from 'node:timers/promises';
import { createReceiver } from 'stablehooks';
import { openInbox } from './open-inbox.js';

/** Short, so that a killed event runs again soon. */
const LEASE_MS = 1_000;

const { LAYER = '', URL = '' } = process.env;

const { inbox, effect } = await openInbox(LAYER, { url: URL, connections: 6 });
// What the first statement loads is not the subject of the test.
await inbox.pollState();
let started = false;

const receiver = createReceiver({
  secret: 'kills',
  inbox,
  leaseMs: LEASE_MS,
  handlerTimeoutMs: LEASE_MS - 1,
  // Every kill in the middle of an attempt counts as one.
  maxAttempts: 10_000,
  logger: { warn: () => undefined, error: () => undefined },
  handlers: {
    'transfer.settled': async ({ id }, { tx }) => {
      if (!started) process.send?.('started');
      started = true;
      await effect(tx, id);
      await pause(Math.random() * 3);
    },
  },
});

// The test decides when the process begins.
process.once('message', async () => {
  for (;;) {
    await receiver.redrive();
    await pause(5);
  }
});
process.on('disconnect', () => process.exit());
process.send?.('ready');
