/** What the failure of a dependency becomes. */
import { ConfigError, createReceiver, memoryInbox } from 'stablehooks';
import { exampleEvent } from 'stablehooks/testing';
import { expect, test } from 'vitest';

test('an error of this package that an inbox rejects with is passed on as it is, and another is the cause of ERR_INBOX_FAILED', async () => {
  const own = new ConfigError('The tables are missing.');
  const other = new Error('connection refused');
  for (const [thrown, expected] of [
    [own, own],
    [
      other,
      expect.objectContaining({
        code: 'ERR_INBOX_FAILED',
        cause: other,
        message: expect.stringContaining('The inbox failed'),
      }),
    ],
  ] as const) {
    const receiver = createReceiver({
      secret: 's',
      handlers: { 'transfer.settled': () => undefined },
      inbox: { ...memoryInbox(), claim: () => Promise.reject(thrown) },
      logger: { warn: () => undefined, error: () => undefined },
    });
    expect(await receiver.handle(exampleEvent('transfer.settled'), 'pull')).toMatchObject({
      error: expected,
    });
  }
});
