/** What the failure of a dependency becomes. */
import { ConfigError, createReceiver, memoryInbox } from 'stablehooks';
import { exampleEvent } from 'stablehooks/testing';
import { expect, test } from 'vitest';

test('an error of this package that an inbox rejects with is passed on as it is', async () => {
  const error = new ConfigError('The tables are missing.');
  const receiver = createReceiver({
    secret: 's',
    handlers: { 'transfer.settled': () => undefined },
    inbox: { ...memoryInbox(), claim: () => Promise.reject(error) },
    logger: { warn: () => undefined, error: () => undefined },
  });
  const outcome = await receiver.handle(exampleEvent('transfer.settled'), 'pull');
  expect(outcome.error).toBe(error);
});
