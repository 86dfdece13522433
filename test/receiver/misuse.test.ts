/** What a caller hands over wrongly is told, and changes nothing. */
import { createReceiver, memoryInbox, type Outcome, toWebhookResponse, type UnknownEvent } from 'stablehooks';
import { describe, expect, test } from 'vitest';
import { anEvent, secret } from './delivery.js';

function setUp() {
  const inbox = memoryInbox();
  const handled: string[] = [];
  const outcomes: Outcome[] = [];
  const lines: string[] = [];
  const log = (line: string) => void lines.push(line);
  const receiver = createReceiver({
    secret,
    inbox,
    handlers: { 'transfer.settled': ({ id }) => void handled.push(id) },
    onOutcome: (outcome) => void outcomes.push(outcome),
    logger: { warn: log, error: log },
  });
  return { inbox, receiver, handled, outcomes, lines };
}

type RecordOptions = Parameters<ReturnType<typeof createReceiver>['record']>[1];

test.each([
  [{ dueInMS: 0, origin: 'pull' }, /unknown option `dueInMS`\. The options are dueInMs, origin, json\./],
  [{ origin: 'pull' }, /`dueInMs` must be an integer from 0/],
  [{ dueInMs: Number.NaN, origin: 'pull' }, /`dueInMs`/],
  [{ dueInMs: -1, origin: 'pull' }, /`dueInMs`/],
  [{ dueInMs: 0 }, /`origin` must be one of push, pull, queue, redrive/],
  [{ dueInMs: 0, origin: 'poll' }, /`origin`/],
  [{ dueInMs: 0, origin: 'pull', json: [] }, /`json` must be an array with the JSON of each event/],
])('record refuses the options %j, and records nothing', async (options, message) => {
  const { inbox, receiver } = setUp();
  const event = anEvent();
  const recorded = receiver.record([event], options as RecordOptions);
  await expect(recorded).rejects.toThrow(expect.objectContaining({ code: 'ERR_CONFIG_INVALID' }));
  await expect(recorded).rejects.toThrow(message);
  expect(await inbox.find(event.id)).toBeUndefined();
});

test('redrive refuses unknown options, and runs nothing', async () => {
  const { receiver, handled } = setUp();
  await receiver.record([anEvent()], { dueInMs: 0, origin: 'pull' });
  const misspelt = { onOutcomes: () => undefined } as object;
  await expect(receiver.redrive(misspelt)).rejects.toThrow(/unknown option `onOutcomes`/);
  expect(handled).toEqual([]);
  await receiver.redrive();
  expect(handled).toHaveLength(1);
});

describe.each(['accept', 'handle'] as const)('%s', (method) => {
  test.each<[unknown, readonly string[]]>([
    [null, []],
    [undefined, []],
    ['evt_1', []],
    [{ id: 'evt_1' }, ['type', 'created_at', 'payload']],
  ])('resolves to rejected with ERR_EVENT_MALFORMED for %j, which is no event', async (value, fields) => {
    const { inbox, receiver, outcomes, lines } = setUp();
    const outcome = await receiver[method](value as UnknownEvent, 'push');
    expect(outcome).toMatchObject({
      kind: 'rejected',
      origin: 'push',
      error: { code: 'ERR_EVENT_MALFORMED', fields },
    });
    expect(outcome.event).toBeUndefined();
    expect(toWebhookResponse(outcome).status).toBe(400);
    expect(outcomes).toEqual([outcome]);
    expect(lines).toHaveLength(1);
    expect(await inbox.find('evt_1')).toBeUndefined();
  });
});
