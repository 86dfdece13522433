/** What every inbox on a server owes while that server is away, and after it. */
import { createReceiver } from 'stablehooks';
import type { Inbox } from 'stablehooks/conformance';
import { exampleEvent } from 'stablehooks/testing';
import { expect } from 'vitest';
import type { Service } from '../services/service.js';

/** Away is unavailable; back, what was done is still done, and what was refused can be had. */
export async function expectOutageSurvived(inbox: Inbox, server: Service): Promise<void> {
  const receiver = createReceiver({ secret: 'x', inbox, handlers: {}, onOutcome: () => undefined });
  const handle = (id: string) => receiver.handle({ ...exampleEvent('transfer.settled'), id }, 'push');

  expect((await handle('evt_before')).kind).toBe('ignored');
  await server.halt();
  try {
    const refused = { kind: 'unavailable', error: { code: 'ERR_INBOX_FAILED' } };
    expect(await handle('evt_during')).toMatchObject(refused);
  } finally {
    await server.start();
  }
  // Until the client has connected again the answer stays "come again".
  const settle = async (id: string) => {
    for (;;) {
      const { kind } = await handle(id);
      if (kind !== 'unavailable') return kind;
      await new Promise(setImmediate);
    }
  };
  expect(await settle('evt_before')).toBe('duplicate');
  expect(await settle('evt_during')).toBe('ignored');
}
