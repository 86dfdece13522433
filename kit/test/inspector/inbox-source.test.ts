import { memoryInbox } from 'stablehooks';
import { exampleEvent } from 'stablehooks/testing';
import { fromInbox, type InspectedInbox, type StreamEntry } from 'stablehooks-kit/inspector';
import { expect, test } from 'vitest';

/** However busy the machine is. */
const eventually = <Value>(read: () => Value) => expect.poll(read, { timeout: 60_000 });

const POLL_INTERVAL_MS = 100;

/** An inbox that can be cut off, and a source over it with what it has published. */
function watched(isWatched: () => boolean = () => true) {
  const memory = memoryInbox();
  let failure: Error | undefined;
  let looks = 0;
  const inbox: InspectedInbox = {
    ...memory,
    async count() {
      looks += 1;
      if (failure !== undefined) throw failure;
      return memory.count();
    },
  };
  const source = fromInbox(inbox, { name: 'payments', pollIntervalMs: POLL_INTERVAL_MS });
  const entries: StreamEntry[] = [];
  const close = source.subscribe((entry) => entries.push(entry), isWatched);
  return {
    inbox: memory,
    entries,
    looks: () => looks,
    fail(error: Error | undefined) {
      failure = error;
    },
    [Symbol.dispose]: close,
  };
}

test('an event that is recorded while a page is open is told as a change of the inbox', async () => {
  using source = watched();
  await eventually(source.looks).toBeGreaterThan(0);
  expect(source.entries).toEqual([]);
  await source.inbox.record([exampleEvent('transfer.settled')], { origin: 'push', dueInMs: 0 });
  await eventually(() => source.entries).toEqual([{ kind: 'changed', view: 'inbox' }]);
});

test('an inbox that fails is told once with the time and no part of its message, and its return, too', async () => {
  using source = watched();
  const refused = Object.assign(new Error('connect to postgres://app:whsec_hidden@db/app'), {
    code: 'ECONNREFUSED',
  });
  source.fail(new Error('The inbox failed: postgres://app:whsec_hidden@db/app', { cause: refused }));
  await eventually(() => source.entries).toHaveLength(1);
  const looks = source.looks();
  await eventually(source.looks).toBeGreaterThan(looks + 1);
  expect(source.entries).toEqual([
    {
      kind: 'lost',
      since: expect.stringMatching(/^\d{4}-.*Z$/),
      why: 'The inbox cannot be reached: nothing listens there (ECONNREFUSED).',
    },
  ]);
  source.fail(undefined);
  await eventually(() => source.entries.slice(1)).toEqual([{ kind: 'recovered' }]);
});

test('an inbox is not asked while no page is open', async () => {
  let isWatched = false;
  using source = watched(() => isWatched);
  using other = watched();
  await eventually(other.looks).toBeGreaterThan(2);
  expect(source.looks()).toBe(0);
  isWatched = true;
  await eventually(source.looks).toBeGreaterThan(0);
});
