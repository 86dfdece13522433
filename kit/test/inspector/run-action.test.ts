/** The action `run`, by the handler alone. */
import { memoryInbox } from 'stablehooks';
import { exampleEvent } from 'stablehooks/testing';
import { createInspector, fromInbox, type InboxSourceOptions } from 'stablehooks-kit/inspector';
import { expect, test, vi } from 'vitest';

const EVENT = exampleEvent('transfer.settled');

async function startPage(run: InboxSourceOptions['run'], leaseMs = 60_000) {
  const inbox = memoryInbox();
  const claim = await inbox.claim(EVENT, { leaseMs, origin: 'push' });
  const inspector = createInspector({
    source: fromInbox(inbox, { name: 'app', run }),
    actions: ['run'],
    authorize: () => true,
  });
  const url = 'http://app.example/api';
  const session = await inspector.fetch(new Request(`${url}/session`));
  const [cookie = ''] = session.headers.get('set-cookie')?.split(';') ?? [];
  const { actionToken } = await session.json();
  return {
    inbox,
    async fail() {
      if (claim.state === 'claimed') await inbox.fail(claim.lease, { error: 'closed', retryAfterMs: null });
    },
    async run() {
      const headers = { cookie, 'x-inspector-token': actionToken, 'content-type': 'application/json' };
      const body = JSON.stringify({ id: EVENT.id });
      const answer = await inspector.fetch(
        new Request(`${url}/actions/run`, { method: 'POST', headers, body }),
      );
      return { status: answer.status, body: await answer.json() };
    },
    [Symbol.dispose]: () => inspector.close(),
  };
}

test('an event whose lease holds is not run, and one whose lease has ended is', async () => {
  using leased = await startPage(async () => 'handled');
  expect(await leased.run()).toEqual({ status: 409, body: { message: 'The event runs now.' } });
  using lapsed = await startPage(async () => 'handled', 1);
  await expect.poll(lapsed.run).toEqual({ status: 200, body: { outcome: 'handled' } });
});

test('a run that fails says whether the event was requeued, and its error is only in the log', async () => {
  using log = vi.spyOn(console, 'error').mockImplementation(() => undefined);
  using page = await startPage(async () => {
    throw new Error('no connection to postgres://app:hunter2@db');
  });
  await page.fail();
  expect(await page.run()).toEqual({
    status: 500,
    body: {
      message:
        'The event could not be run after it was requeued: it is due now, with its attempts reset. The log of the process shows the error.',
    },
  });
  expect(await page.inbox.find(EVENT.id)).toMatchObject({ state: 'received', attempts: 0 });
  expect((await page.run()).body).toEqual({
    message: 'The event could not be run. The log of the process shows the error.',
  });
  expect(log).toHaveBeenCalledTimes(2);
});
