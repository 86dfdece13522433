/** The process that `transaction-kills.test.ts` kills: handles what is due in the inbox, over one data layer. */
import { setTimeout as pause } from 'node:timers/promises';
import { createReceiver } from 'stablehooks';
import { postgresInbox } from 'stablehooks/inboxes/postgres';
import { DATA_LAYERS } from './data-layers.js';

const { LAYER = '', URL = '', LEASE_MS = '' } = process.env;

const layer = await DATA_LAYERS[LAYER]?.({ url: URL, connections: 6 });
if (layer === undefined) throw new Error(`There is no data layer ${LAYER}.`);
// What the first statement loads is not the subject of the test.
await layer.pool.query('SELECT 1');
let started = false;

const receiver = createReceiver({
  secret: 'kills',
  inbox: postgresInbox(layer.pool, { transactional: true }),
  leaseMs: Number(LEASE_MS),
  handlerTimeoutMs: Number(LEASE_MS) - 1,
  // Every kill in the middle of an attempt counts as one.
  maxAttempts: 10_000,
  logger: { warn: () => undefined, error: () => undefined },
  handlers: {
    'transfer.settled': async ({ id }, { tx }) => {
      if (!started) process.send?.('started');
      started = true;
      await layer.effect(tx, id);
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
