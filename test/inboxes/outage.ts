import { createReceiver, type Inbox } from 'stablehooks';
import { expect } from 'vitest';
import type { Service } from '../services/service.js';
import { silent, someEvent } from './claimed.js';

/** While the server is down, `handle` is unavailable. After that, done events are still done and the refused one runs. */
export async function expectOutageSurvived(inbox: Inbox, server: Service): Promise<void> {
  const handlers = { 'transfer.settled': () => undefined };
  const receiver = createReceiver({ secret: 'x', inbox, handlers, logger: silent });
  const handle = (id: string) => receiver.handle(someEvent({ id }), 'push');

  expect((await handle('evt_before')).kind).toBe('handled');
  await server.halt();
  try {
    const refused = { kind: 'unavailable', error: { code: 'ERR_INBOX_FAILED' } };
    expect(await handle('evt_during')).toMatchObject(refused);
  } finally {
    await server.start();
  }
  // The outcome is `unavailable` until the client has connected again.
  const settle = async (id: string) => {
    for (;;) {
      const { kind } = await handle(id);
      if (kind !== 'unavailable') return kind;
      await new Promise(setImmediate);
    }
  };
  expect(await settle('evt_before')).toBe('duplicate');
  expect(await settle('evt_during')).toBe('handled');
}
