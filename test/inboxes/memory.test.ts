/** The memory inbox keeps the contract, and its own promise: a bounded memory. */
import { memoryInbox } from 'stablehooks/inboxes/memory';
import { inboxContract } from 'stablehooks/testing';
import { describe, test } from 'vitest';

describe('memory inbox', () => {
  for (const { name, run } of inboxContract) {
    test(name, () => {
      const inbox = memoryInbox();
      return run({ inbox, second: inbox });
    });
  }
});
