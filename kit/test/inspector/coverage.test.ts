/** The routes of the coverage view. */
import { memoryInbox, type StoredGap } from 'stablehooks';
import { exampleEvent } from 'stablehooks/testing';
import {
  createInspector,
  fromInbox,
  type InspectedInbox,
  type InspectorSource,
} from 'stablehooks-kit/inspector';
import { expect, onTestFinished, test } from 'vitest';
import type { CoverageReport, Session } from '../../src/inspector/api.js';
import { withFlagWords } from '../../src/inspector/with-flag-words.js';

/** An inspector of an app, and its requests as a page makes them. */
async function startInspector(inbox: InspectedInbox, word = (source: InspectorSource) => source) {
  const inspector = createInspector({
    source: word(fromInbox(inbox, { name: 'app' })),
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
    send,
    post: (path: string, body: object = {}) =>
      send(path, { method: 'POST', headers, body: JSON.stringify(body) }),
    report: async (): Promise<CoverageReport> => (await send('coverage')).json(),
    state: async () => (await (await send('coverage')).json()).picture.state,
  };
}

function gap(): StoredGap {
  const until = { 'transfer.settled': 2_000 };
  return { from: 1_000, until, reason: 'not-reached', openedAt: 3_000, acknowledged: null };
}

async function savePoll(inbox: InspectedInbox): Promise<void> {
  await inbox.acquirePoll({ holder: 'test', leaseMs: 60_000 });
  const state = { since: 500, watermark: 9_000, limit: 50, oldest: null, gaps: [gap()] };
  expect(await inbox.savePoll(state, { holder: 'test', leaseMs: 0 })).toBe(true);
}

test('looking at the coverage reads no events, and a picture is drawn only when it is asked for by POST', async () => {
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
  const { send, post, report, state } = await startInspector(inbox);
  expect((await send('coverage?draw=1')).status).toBe(200);
  expect(await report()).toEqual({
    ...{ since: null, watermark: null, gaps: [], lastPoll: null, picture: { state: 'none' } },
  });
  expect(pages).toBe(0);
  expect((await send('coverage.svg')).status).toBe(404);
  expect((await send('coverage', { method: 'POST' })).status).toBe(403);
  expect((await post('coverage')).status).toBe(200);
  await expect.poll(state).toBe('ready');
  expect(pages).toBeGreaterThan(0);
  expect(await (await send('coverage.svg')).text()).toContain('1 event: 0 by push, 1 recovered by pull.');
});

test('a picture that is being drawn says so and is not drawn twice, and one that fails says why', async () => {
  const memory = memoryInbox();
  let fail: (error: Error) => void = () => undefined;
  let drawings = 0;
  const inbox: InspectedInbox = {
    ...memory,
    async list() {
      drawings += 1;
      return new Promise<never>((_, reject) => {
        fail = reject;
      });
    },
  };
  const { post, state, report } = await startInspector(inbox);
  await post('coverage');
  expect(await state()).toBe('drawing');
  await expect.poll(async () => drawings).toBe(1);
  await post('coverage');
  fail(Object.assign(new Error('postgres://app:hunter2@db'), { code: 'ECONNREFUSED' }));
  await expect.poll(state).toBe('failed');
  expect(drawings).toBe(1);
  expect((await report()).picture).toEqual({
    state: 'failed',
    why: 'The inbox cannot be reached: nothing listens there (ECONNREFUSED).',
  });
});

test('a gap is acknowledged once, with who and why', async () => {
  const inbox = memoryInbox();
  await savePoll(inbox);
  const { post, report } = await startInspector(inbox);
  const [{ id = '' } = {}] = (await report()).gaps;
  const acknowledge = async () =>
    (await post('actions/acknowledge-gap', { id, by: 'Ada', reason: 'The books agree.' })).json();
  expect(await acknowledge()).toEqual({ done: true });
  expect((await inbox.pollState()).gaps).toMatchObject([
    { from: 1_000, acknowledged: { by: 'Ada', reason: 'The books agree.' } },
  ]);
  expect((await report()).gaps).toMatchObject([{ state: 'acknowledged' }]);
  expect(await acknowledge()).toEqual({ done: false });
});

test('the page of a command that polls names its flags, and that of an app the options of its poller', async () => {
  const inbox = memoryInbox();
  await savePoll(inbox);
  for (const [word, advice] of [
    [undefined, /poll more often or raise maxLimit\.$/],
    [withFlagWords, /poll more often or raise --max-limit\.$/],
  ] as const) {
    const { report } = await startInspector(inbox, word);
    expect((await report()).gaps).toMatchObject([{ text: expect.stringMatching(advice) }]);
  }
});
