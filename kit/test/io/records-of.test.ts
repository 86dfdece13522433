import { memoryInbox } from 'stablehooks';
import { exampleEvent } from 'stablehooks/testing';
import { expect, test } from 'vitest';
import { recordsOf } from '../../src/io/records-of.js';

const RECORD = { dueInMs: 60_000, origin: 'pull' } as const;

test('every record is read once, whatever the size of a page', async () => {
  const inbox = memoryInbox();
  const ids = Array.from({ length: 1_200 }, (_, index) => `evt_${index}`);
  await inbox.record(
    ids.map((id) => ({ ...exampleEvent('transfer.settled'), id })),
    RECORD,
  );
  const read: string[] = [];
  for await (const { id } of recordsOf(inbox, 'received')) read.push(id);
  expect(read.toSorted()).toEqual(ids.toSorted());
});

test('an inbox that refuses the first page is not asked again', async () => {
  const inbox = memoryInbox();
  let asked = 0;
  const refusing: Pick<typeof inbox, 'list'> = {
    list(options) {
      asked += 1;
      return inbox.list({ ...options, limit: -1 });
    },
  };
  const reading = recordsOf(refusing, 'received').next();
  await expect(reading).rejects.toMatchObject({ code: 'ERR_CONFIG_INVALID' });
  expect(asked).toBe(1);
});
