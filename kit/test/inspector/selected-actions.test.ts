/** Requeue, run and discard what a filter selects, as a page requests them. */
import { createReceiver, type EventContext, memoryInbox, type UnknownEvent } from 'stablehooks';
import { exampleEvent } from 'stablehooks/testing';
import {
  type ActionName,
  createInspector,
  fromInbox,
  type InboxSourceOptions,
} from 'stablehooks-kit/inspector';
import { expect, onTestFinished, test, vi } from 'vitest';
import { complete, fail } from '../inbox-states.js';

const ACTIONS = ['requeue', 'run', 'discard'] as const satisfies readonly ActionName[];

type Run = NonNullable<InboxSourceOptions['run']>;

/** An inbox with dead events, and one that is done. */
async function startPage(dead: readonly UnknownEvent[], outcomeOf: Run = async () => 'handled', given?: Run) {
  const inbox = memoryInbox();
  /** Runs an event as the receiver of this inbox does. */
  const runHere: Run = async (event) => {
    const outcome = await outcomeOf(event);
    if (outcome === 'handled' && (await inbox.find(event.id))?.state !== 'done') await complete(inbox, event);
    return outcome;
  };
  await inbox.ignore([exampleEvent('accept.confirmed', { id: 'evt_done' })], { origin: 'push' });
  for (const event of dead) {
    await fail(inbox, event);
  }
  const inspector = createInspector({
    source: fromInbox(inbox, { name: 'app', run: given ?? runHere }),
    actions: ACTIONS,
    authorize: () => true,
  });
  onTestFinished(() => inspector.close());
  const url = 'http://app.example/api';
  const session = await inspector.fetch(new Request(`${url}/session`));
  const [cookie = ''] = session.headers.get('set-cookie')?.split(';') ?? [];
  const { actionToken } = await session.json();
  const headers = { cookie, 'x-inspector-token': actionToken, 'content-type': 'application/json' };
  return {
    inbox,
    get: async (path: string) => (await inspector.fetch(new Request(`${url}/${path}`))).json(),
    async act(name: (typeof ACTIONS)[number], input: object) {
      const request = { method: 'POST', headers, body: JSON.stringify(input) };
      const answer = await inspector.fetch(new Request(`${url}/actions/${name}`, request));
      return { status: answer.status, ...(await answer.json()) };
    },
  };
}

const events = (count: number, type = 'transfer.settled' as const, prefix = 'evt') =>
  Array.from({ length: count }, (_, index) => exampleEvent(type, { id: `${prefix}_${index}` }));

test('a dry run counts and names events, and changes nothing', async () => {
  const { act, inbox } = await startPage(events(7));
  for (const name of ACTIONS) {
    expect(await act(name, { filter: {}, dryRun: true, by: 'Ada', reason: 'test' })).toMatchObject(
      name === 'discard'
        ? { status: 409 }
        : { matched: 8, eligible: 7, changed: 0, ids: events(7).map(({ id }) => id) },
    );
  }
  expect((await inbox.count()).find(({ state }) => state === 'dead')).toMatchObject({ count: 7 });
});

test('requeue changes the events of the filter and no others', async () => {
  const others = [exampleEvent('redeem.failed', { id: 'evt_other' })];
  const { act, inbox } = await startPage([...events(3), ...others]);
  const filter = { state: 'dead', type: 'transfer.settled', error: 'clos', until: Date.now() + 1_000 };
  expect(await act('requeue', { filter })).toMatchObject({ matched: 3, changed: 3 });
  expect(await inbox.find('evt_0')).toMatchObject({ state: 'received', attempts: 0 });
  expect(await inbox.find('evt_other')).toMatchObject({ state: 'dead' });
  expect(await act('requeue', { filter: { ids: ['evt_done'] } })).toMatchObject({
    matched: 1,
    eligible: 0,
    changed: 0,
  });
  expect(await act('requeue', { filter: { misspelt: 1 } })).toMatchObject({ status: 400 });
});

test('events are run one after the other, and the answer counts their outcomes', async () => {
  const ran: string[] = [];
  const { act } = await startPage(events(3), async ({ id }) => {
    ran.push(id);
    return id === 'evt_1' ? 'failed' : 'handled';
  });
  expect(await act('run', { filter: { state: 'dead' } })).toMatchObject({
    changed: 3,
    outcomes: { handled: 2, failed: 1 },
  });
  expect(ran).toEqual(['evt_0', 'evt_1', 'evt_2']);
});

test('a run stops at the first event that another inbox has handled, and the others stay as they are', async () => {
  const other = createReceiver({
    ...{ secret: 'whsec_other', inbox: memoryInbox() },
    handlers: { 'transfer.settled': ({ id }) => void ran.push(id) },
  });
  const ran: string[] = [];
  const run: Run = async (event) => (await other.accept(event, 'redrive')).kind;
  const page = await startPage(events(5), undefined, run);
  expect(await page.act('run', { filter: { state: 'dead' } })).toMatchObject({
    ...{ eligible: 5, changed: 1, outcomes: { elsewhere: 1 } },
  });
  expect(ran).toEqual(['evt_0']);
  expect((await page.inbox.count()).find(({ state }) => state === 'dead')).toMatchObject({ count: 5 });
  expect((await page.inbox.find('evt_0'))?.lastError).toContain('a receiver that does not use this inbox');
});

test('the handler of an event that is run gets the stored text, in which large numbers are not rounded', async () => {
  const texts: string[] = [];
  const handler = (_: UnknownEvent, { json }: EventContext) => void texts.push(json);
  const page = await startPage([], async (event) => (await receiver.accept(event, 'redrive')).kind);
  const handlers = { 'transfer.settled': handler };
  const receiver = createReceiver({ secret: 'whsec_test', inbox: page.inbox, handlers });
  const text =
    '{"id":"evt_0","type":"transfer.settled","created_at":"2026-01-01T00:00:00Z","payload":{"units":1234567890123456789012}}';
  await fail(page.inbox, JSON.parse(text), { json: text });
  expect(await page.act('run', { filter: { state: 'dead' } })).toMatchObject({ outcomes: { handled: 1 } });
  expect(texts).toEqual([text]);
});

test('a dead event that fails again stays dead, with its first cause', async () => {
  const failAgain = async (event: UnknownEvent) => {
    await fail(page.inbox, event, {
      origin: 'redrive',
      error: 'ERR_HANDLER_FAILED: no ledger',
      retryAfterMs: 1_000,
    });
    return 'failed';
  };
  const page = await startPage(events(1), failAgain);
  for (let time = 0; time < 2; time += 1) {
    expect(await page.act('run', { filter: { state: 'dead' } })).toMatchObject({ outcomes: { failed: 1 } });
    expect(await page.inbox.find('evt_0')).toMatchObject({
      state: 'dead',
      lastError: 'closed; inbox run: ERR_HANDLER_FAILED: no ledger',
    });
  }
});

test('a failed event that fails again keeps the retry time of the app', async () => {
  const [event] = events(1);
  if (event === undefined) throw new Error('There is no event.');
  const run = async () => {
    await fail(page.inbox, event, { origin: 'redrive', error: 'again', retryAfterMs: 60_000 });
    return 'failed';
  };
  const page = await startPage([], run);
  await fail(page.inbox, event, { error: 'once', retryAfterMs: 1_000 });
  await page.act('run', { filter: { state: 'failed' } });
  expect(await page.inbox.find('evt_0')).toMatchObject({ state: 'failed', lastError: 'again' });
});

test('an event whose lease holds is not run, and one whose lease has lapsed is', async () => {
  const { act, inbox } = await startPage([]);
  await inbox.claim(exampleEvent('transfer.settled', { id: 'evt_held' }), {
    leaseMs: 60_000,
    origin: 'push',
  });
  await inbox.claim(exampleEvent('transfer.settled', { id: 'evt_lapsed' }), { leaseMs: 1, origin: 'push' });
  const run = async (id: string) => (await act('run', { filter: { ids: [id] } })).outcomes;
  await expect.poll(() => run('evt_lapsed')).toEqual({ handled: 1 });
  expect(await run('evt_held')).toEqual({});
});

test('the error of a run is only in the log', async () => {
  using log = vi.spyOn(console, 'error').mockImplementation(() => undefined);
  const { act, inbox } = await startPage(events(1), async () => {
    throw new Error('no connection to postgres://app:hunter2@db');
  });
  const result = await act('run', { filter: { ids: ['evt_0'] } });
  expect(result).toMatchObject({ outcomes: { error: 1 } });
  expect(JSON.stringify(result)).not.toContain('hunter2');
  expect(await inbox.find('evt_0')).toMatchObject({
    state: 'dead',
    lastError: 'closed; inbox run: the run threw an error, which is in the log of the inspector',
  });
  expect(log).toHaveBeenCalledTimes(1);
});

test('a part of an id and a text of a body select events in the list and for actions', async () => {
  const marked = exampleEvent('transfer.settled', { id: 'evt_marked', payload: { note: 'Grüße' } });
  const { act, get } = await startPage([...events(3), marked]);
  const rows = async (query: string) => {
    const page = await get(`events?${query}`);
    return [page.rows.map(({ id }: { readonly id: string }) => id), page.searched];
  };
  expect(await rows('id=evt_1')).toEqual([['evt_1'], null]);
  expect(await rows('id=MARK')).toEqual([['evt_marked'], 5]);
  expect(await rows(`text=${encodeURIComponent('GRÜSS')}`)).toEqual([[], 5]);
  expect(await rows(`text=${encodeURIComponent('GRÜßE')}`)).toEqual([['evt_marked'], 5]);
  expect(await get('events/counts?text=x')).toMatchObject({ states: null });
  expect(await act('requeue', { filter: { text: 'grüße' } })).toMatchObject({ matched: 1, changed: 1 });
});
