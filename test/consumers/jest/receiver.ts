import { createReceiver, memoryInbox, PermanentError } from 'stablehooks';

export const inbox = memoryInbox();

/** The events that took effect. */
export const settled: string[] = [];

export const receiver = createReceiver({
  secret: 'whsec_jest',
  inbox,
  handlers: {
    'transfer.settled': (event) => void settled.push(event.id),
    'transfer.failed': () => {
      throw new PermanentError('The account is closed.');
    },
    'redeem.failed': () => {
      throw new Error('The ledger is down.');
    },
  },
  logger: { warn() {}, error() {} },
});
