import { createReceiver, memoryInbox } from 'stablehooks';
import { createPoller } from 'stablehooks/catch-up';
import { createClient } from 'stablehooks/client';
import { exampleEvent } from 'stablehooks/testing';
import { fromInbox, type InspectedInbox, type LastReport, type StreamEntry } from 'stablehooks-kit/inspector';
import { expect, onTestFinished, test, vi } from 'vitest';
import { SECRET } from '../command.js';
import { fail } from '../inbox-states.js';
import { SILENT } from '../service.js';

const POLL_INTERVAL_MS = 100;

/** An inbox that can be cut off, and a source over it with what it has published. */
function watched(isWatched: () => boolean = () => true) {
  const memory = memoryInbox();
  let failure: Error | undefined;
  let looks = 0;
  let isSilent = false;
  let last: LastReport | undefined;
  const inbox: InspectedInbox = {
    ...memory,
    async count() {
      looks += 1;
      if (failure !== undefined) throw failure;
      if (isSilent) await new Promise(() => undefined);
      return memory.count();
    },
  };
  const source = fromInbox(inbox, {
    name: 'payments',
    pollIntervalMs: POLL_INTERVAL_MS,
    lastReport: () => last,
  });
  const entries: StreamEntry[] = [];
  const close = source.subscribe((entry) => entries.push(entry), isWatched);
  return {
    inbox: memory,
    operations: source.inbox?.operations ?? inbox,
    entries,
    looks: () => looks,
    fail(error: Error | undefined) {
      failure = error;
    },
    /** Makes it answer nothing, as when a connection is lost without a word. */
    silence(silent: boolean) {
      isSilent = silent;
    },
    polled(report: LastReport) {
      last = report;
    },
    [Symbol.dispose]: close,
  };
}

/** The entries of the first read: the page has requested its data before it. */
const FIRST: readonly StreamEntry[] = [
  { kind: 'changed', view: 'events' },
  { kind: 'changed', view: 'coverage' },
];

test('what has changed before the first look, while a page was opened, is told', async () => {
  using source = watched();
  await expect.poll(() => source.entries).toEqual(FIRST);
  const looks = source.looks();
  await expect.poll(source.looks).toBeGreaterThan(looks + 1);
  expect(source.entries).toEqual(FIRST);
});

test('after a time in which no page was open, the first look tells a change again', async () => {
  let isWatched = true;
  let asked = 0;
  using source = watched(() => {
    asked += 1;
    return isWatched;
  });
  await expect.poll(() => source.entries).toEqual(FIRST);
  isWatched = false;
  const before = asked;
  await expect.poll(() => asked).toBeGreaterThan(before + 1);
  isWatched = true;
  await expect.poll(() => source.entries).toEqual([...FIRST, ...FIRST]);
});

test('an event that is recorded while a page is open is told as a change of the inbox', async () => {
  using source = watched();
  await expect.poll(() => source.entries).toEqual(FIRST);
  await source.inbox.record([exampleEvent('transfer.settled')], { origin: 'push', dueInMs: 0 });
  await expect.poll(() => source.entries.slice(2)).toEqual([{ kind: 'changed', view: 'events' }]);
});

test('a poll that fails and saves nothing is told as a change of the coverage', async () => {
  using source = watched();
  await expect.poll(() => source.entries).toEqual(FIRST);
  const client = createClient({
    baseUrl: 'https://service.example',
    token: 'token',
    retries: 0,
    fetch: async () => new Response(null, { status: 503 }),
  });
  const receiver = createReceiver({ secret: SECRET, handlers: {}, inbox: memoryInbox(), logger: SILENT });
  const report = await createPoller({ client, receiver, logger: SILENT }).pollOnce();
  expect(report.proven).toBe(false);
  source.polled({ report, at: 1 });
  await expect.poll(() => source.entries.slice(2)).toEqual([{ kind: 'changed', view: 'coverage' }]);
});

test('pages get the counts of the last look, and after an action and while none is open new ones', async () => {
  let isWatched = true;
  using source = watched(() => isWatched);
  const event = exampleEvent('transfer.failed');
  await fail(source.inbox, event);
  const countOf = async (state: string) =>
    (await source.operations.count()).find((each) => each.state === state)?.count;
  await expect.poll(() => source.entries).toEqual(FIRST);
  const looks = source.looks();
  const counts = await Promise.all(Array.from({ length: 10 }, () => countOf('dead')));
  expect(counts).toEqual(Array.from({ length: 10 }, () => 1));
  expect(source.looks() - looks).toBeLessThan(10);
  await source.operations.requeue(event.id);
  expect(await countOf('dead')).toBe(0);
  isWatched = false;
  await expect
    .poll(async () => {
      const before = source.looks();
      await countOf('dead');
      return source.looks() - before;
    })
    .toBe(1);
});

test('an inbox that never answers is lost after ten seconds, and found again when it answers', async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  using source = watched();
  source.silence(true);
  const counts = expect(source.operations.count()).rejects.toThrow();
  await vi.advanceTimersByTimeAsync(9_000);
  expect(source.entries).toEqual([]);
  await vi.advanceTimersByTimeAsync(2_000);
  const why = 'The inbox does not respond.';
  expect(source.entries).toEqual([{ kind: 'lost', since: expect.stringMatching(/Z$/), why }]);
  await counts;
  // It is asked again, and what was asked first never answers.
  source.silence(false);
  await vi.advanceTimersByTimeAsync(20_000);
  expect(source.entries.slice(1)).toEqual([{ kind: 'recovered' }, ...FIRST]);
});

test('a failure of the inbox is reported once, with the time and no part of its message, and so is its return', async () => {
  using source = watched();
  const refused = Object.assign(new Error('connect to postgres://app:whsec_hidden@db/app'), {
    code: 'ECONNREFUSED',
  });
  source.fail(new Error('The inbox failed: postgres://app:whsec_hidden@db/app', { cause: refused }));
  await expect.poll(() => source.entries).toHaveLength(1);
  const looks = source.looks();
  await expect.poll(source.looks).toBeGreaterThan(looks + 1);
  expect(source.entries).toEqual([
    {
      kind: 'lost',
      since: expect.stringMatching(/^\d{4}-.*Z$/),
      why: 'The inbox cannot be reached: nothing is listening there (ECONNREFUSED).',
    },
  ]);
  source.fail(undefined);
  await expect.poll(() => source.entries.slice(1)).toEqual([{ kind: 'recovered' }, ...FIRST]);
});

test('an inbox is not asked while no page is open', async () => {
  let isWatched = false;
  using source = watched(() => isWatched);
  using other = watched();
  await expect.poll(other.looks).toBeGreaterThan(2);
  expect(source.looks()).toBe(0);
  isWatched = true;
  await expect.poll(source.looks).toBeGreaterThan(0);
});

test.for([
  'postgres://app:hunter2@/app?host=/var/run/postgresql',
  'orders at redis://:hunter2@/0',
  'postgres://app@/app?host=/var/run/postgresql',
])('fromInbox refuses the name %s, which has or can have a password, and does not quote it', (name) => {
  const create = () => fromInbox(memoryInbox(), { name });
  expect(create).toThrow('`name` must not contain a password or a URL that cannot be parsed');
  expect(create).not.toThrow(/hunter2|\/var\/run/);
});
