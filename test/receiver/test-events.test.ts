import { createReceiver, memoryInbox } from 'stablehooks';
import { toFetchHandler } from 'stablehooks/fetch';
import { exampleEvent, signedRequest } from 'stablehooks/testing';
import { expect, test } from 'vitest';

test.for(['handled', 'recorded'] as const)(
  'a signed event of the type that doctor sends is ignored and not stored, with answer: %s',
  async (answer) => {
    const inbox = { ...memoryInbox(), durable: true };
    const receiver = createReceiver({
      secret: 's',
      inbox,
      answer,
      handlers: { 'transfer.settled': () => undefined },
    });
    const event = { ...exampleEvent('transfer.settled'), type: 'doctor.unknown' };
    const { body, headers } = await signedRequest(event, { secret: 's' });
    const request = new Request('https://app.example/hooks', { method: 'POST', body, headers });
    const response = await toFetchHandler(receiver)(request);
    expect([response.status, await response.json()]).toMatchObject([200, { outcome: 'ignored' }]);
    expect((await inbox.count()).filter(({ count }) => count > 0)).toEqual([]);
    await receiver.close();
  },
);
