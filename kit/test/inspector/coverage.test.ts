/** The routes of the coverage view. */

import { memoryInbox } from 'stablehooks';
import { type StoredGap, writePollState } from 'stablehooks/catch-up';
import { exampleEvent } from 'stablehooks/testing';
import { createInspector, fromInbox, type InspectedInbox } from 'stablehooks-kit/inspector';
import { expect, onTestFinished, test } from 'vitest';
import type { CoverageReport, Session } from '../../src/inspector/api.js';

/** An inspector of an app, and its requests as a page makes them. */
async function startInspector(inbox: InspectedInbox) {
  const inspector = createInspector({
    source: fromInbox(inbox, { name: 'app' }),
    actions: ['acknowledge-gap'],
    authorize: () => true,
  });
  onTestFinished(() => inspector.close());
  const send = (path: string, init?: RequestInit) =>
    inspector.fetch(new Request(`https://app.example/api/${path}`, init));
  const answer = await send('session');
  const { actionToken }: Session = await answer.json();
  const cookie = answer.headers.get('set-cookie')?.split(';')[0] ?? '';
  const headers = { cookie, 'x-inspector-token': actionToken, 'content-type': 'application/json' };
  return {
    post: (path: string, body: object = {}) =>
      send(path, { method: 'POST', headers, body: JSON.stringify(body) }),
    report: async (): Promise<CoverageReport> => (await send('coverage')).json(),
  };
}

function gap(): StoredGap {
  const until = { 'transfer.settled': 2_000 };
  return { from: 1_000, until, reason: 'not-reached', openedAt: 3_000, acknowledged: null };
}

async function savePoll(inbox: InspectedInbox): Promise<void> {
  const state = { since: 500, watermark: 9_000, limit: 50, oldest: null, gaps: [gap()] };
  expect(await writePollState(inbox, state)).toBe(true);
}

test('reading the coverage reads no events', async () => {
  const memory = memoryInbox();
  await memory.record([exampleEvent('transfer.settled')], { origin: 'pull', dueInMs: 0 });
  let pages = 0;
  const inbox: InspectedInbox = {
    ...memory,
    async list(query) {
      pages += 1;
      return memory.list(query);
    },
  };
  const { report } = await startInspector(inbox);
  expect(await report()).toMatchObject({
    since: null,
    watermark: null,
    gaps: [],
    lastPoll: null,
  });
  expect(pages).toBe(0);
});

test('an open gap says what to do, and has the command that compares the books of its span', async () => {
  const inbox = memoryInbox();
  await savePoll(inbox);
  const { report } = await startInspector(inbox);
  expect((await report()).gaps).toMatchObject([
    {
      text: expect.stringMatching(/lagMs/),
      command:
        'stablehooks reconcile --ledger ledger.csv --inbox env:DATABASE_URL --since 1970-01-01T00:00:01.000Z --until 1970-01-01T00:00:02.000Z',
    },
  ]);
});
