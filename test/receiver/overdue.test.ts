import { createReceiver } from 'stablehooks';
import { expect, test } from 'vitest';
import { anEvent, secret } from './delivery.js';

test('the signal of an overdue handler aborts with the error that was answered', async () => {
  let reason: unknown;
  const receiver = createReceiver({
    secret,
    handlerTimeoutMs: 20,
    logger: { warn: () => undefined, error: () => undefined },
    handlers: {
      'transfer.settled': (_event, { signal }) =>
        new Promise<void>((resolve) => {
          signal.addEventListener('abort', () => {
            reason = signal.reason;
            resolve();
          });
        }),
    },
  });
  const { error } = await receiver.handle(anEvent(), 'push');
  expect(error?.code).toBe('ERR_HANDLER_TIMEOUT');
  expect(reason).toBe(error);
});
