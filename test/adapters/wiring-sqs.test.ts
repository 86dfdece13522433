import { setImmediate } from 'node:timers/promises';
import {
  memoryInbox,
  PermanentError,
  type ReceiverOptions,
  SIGNATURE_HEADER,
  sign,
  type UnknownEvent,
} from 'stablehooks';
import { type SqsEvent, type SqsRecord, toSqsHandler } from 'stablehooks/sqs';
import { exampleEvent } from 'stablehooks/testing';
import { describe, expect, test } from 'vitest';
import { deferred } from '../receiver/delivery.js';
import { isSettled, type SettledHandler } from '../receiver/set-up.js';
import { createObserved, secret } from './observed.js';

const QUEUE = 'arn:aws:sqs:eu-central-1:123456789012:hooks';
const FIFO = `${QUEUE}.fifo`;
const NAME = SIGNATURE_HEADER;

const settled = () => exampleEvent('transfer.settled');

/** A message with all that Lambda passes. `messageId` is the id of its event. */
async function messageOf(
  event: UnknownEvent,
  { group, queue = QUEUE, body }: { group?: string; queue?: string; body?: string } = {},
): Promise<SqsRecord> {
  const json = body ?? JSON.stringify(event);
  const signature = await sign(Buffer.from(json), { secret });
  return {
    messageId: event.id,
    ...{ receiptHandle: 'handle', md5OfBody: '0', eventSource: 'aws:sqs', awsRegion: 'eu-central-1' },
    body: json,
    attributes: { ...{ ApproximateReceiveCount: '1' }, MessageGroupId: group },
    messageAttributes: { [NAME]: stringOf(signature) },
    eventSourceARN: queue,
  };
}

const stringOf = (stringValue: string) => ({
  ...{ stringListValues: [], binaryListValues: [], dataType: 'String' },
  stringValue,
});

const signatureOf = ({ messageAttributes }: SqsRecord) => messageAttributes[NAME]?.stringValue ?? '';

/** Runs a batch, and returns the ids of the messages that it reports as failed. */
async function failuresOf(
  handler: ReturnType<typeof toSqsHandler>,
  records: readonly SqsRecord[],
): Promise<readonly string[]> {
  // As it arrives: JSON has no undefined.
  const { batchItemFailures } = await handler(JSON.parse(JSON.stringify({ Records: records })));
  return batchItemFailures.map(({ itemIdentifier }) => itemIdentifier);
}

function create(handler: SettledHandler = () => undefined, options: Partial<ReceiverOptions> = {}) {
  const inbox = { ...memoryInbox(), durable: true };
  const { receiver, outcomes } = createObserved({
    inbox,
    handlers: { 'transfer.settled': handler },
    ...options,
  });
  return { handler: toSqsHandler(receiver), outcomes };
}

describe('the SQS handler', () => {
  test('a batch of signed events is handled, and nothing is reported as failed, also when it is delivered again', async () => {
    const ran: string[] = [];
    const { handler } = create(({ id }) => void ran.push(id));
    const events = [settled(), settled(), settled()];
    const batch = await Promise.all(events.map((event) => messageOf(event)));

    expect(await failuresOf(handler, batch)).toEqual([]);
    expect(await failuresOf(handler, batch)).toEqual([]);
    expect(ran.sort()).toEqual(events.map(({ id }) => id).sort());
  });

  test('the body is verified byte for byte, with its white space and characters beyond ASCII', async () => {
    const event = exampleEvent('transfer.settled', { payload: { memo: 'Zürich 東京 💶', amount: '10.50' } });
    const message = await messageOf(event, { body: `${JSON.stringify(event, null, 2)}\n` });

    expect(await failuresOf(create().handler, [message])).toEqual([]);
    expect(await failuresOf(create().handler, [{ ...message, body: message.body.trim() }])).toEqual([
      event.id,
    ]);
  });

  test.each([
    ['of type String with a lower-case name', (value: string) => ({ [NAME.toLowerCase()]: stringOf(value) })],
    [
      'of type Binary',
      (value: string) => ({
        [NAME]: { dataType: 'Binary', binaryValue: Buffer.from(value).toString('base64') },
      }),
    ],
    ['beside other attributes', (value: string) => ({ tenant: stringOf('t1'), [NAME]: stringOf(value) })],
  ])('a signature in a message attribute %s is accepted', async (_, toAttributes) => {
    const message = await messageOf(settled());
    const messageAttributes = toAttributes(signatureOf(message));

    expect(await failuresOf(create().handler, [{ ...message, messageAttributes }])).toEqual([]);
  });

  test.each<[string, string, (message: SqsRecord) => Partial<SqsRecord>]>([
    ['no signature', 'ERR_SIGNATURE_MISSING', () => ({ messageAttributes: {} })],
    [
      'the signature in two attributes',
      'ERR_SIGNATURE_MALFORMED',
      (message) => ({
        messageAttributes: { [NAME]: stringOf(signatureOf(message)), [NAME.toLowerCase()]: stringOf('0') },
      }),
    ],
    [
      'a forged signature',
      'ERR_SIGNATURE_MISMATCH',
      () => ({ messageAttributes: { [NAME]: stringOf('0'.repeat(64)) } }),
    ],
    ['a body over maxBodyBytes', 'ERR_BODY_TOO_LARGE', () => ({ body: 'x'.repeat(2_000) })],
  ])('a message with %s is reported as failed, and its neighbours are handled', async (_, code, change) => {
    const { handler, outcomes } = create(undefined, { maxBodyBytes: 1_000 });
    const [before, message, after] = await Promise.all([
      messageOf(settled()),
      messageOf(settled()),
      messageOf(settled()),
    ]);

    const failed = await failuresOf(handler, [before, { ...message, ...change(message) }, after]);

    expect(failed).toEqual([message.messageId]);
    expect(outcomes.flatMap(({ error }) => error?.code ?? [])).toEqual([code]);
    expect(outcomes.filter(({ kind }) => kind === 'handled')).toHaveLength(2);
  });

  test('a message whose body a middleware has parsed is reported as failed with the fix, and the others are not', async () => {
    const [before, parsed] = await Promise.all([messageOf(settled()), messageOf(settled())]);
    const { handler, outcomes } = create();
    const records = [before, { ...parsed, body: JSON.parse(parsed.body) }];

    expect(await failuresOf(handler, records)).toEqual([parsed.messageId]);
    expect(outcomes.find(({ kind }) => kind === 'failed')?.error).toMatchObject({
      code: 'ERR_BODY_UNAVAILABLE',
      message: expect.stringContaining('remove sqsJsonBodyParser'),
    });
  });

  test('an event of an unknown type and one that is dead-lettered are in the inbox, and not reported as failed', async () => {
    const { handler, outcomes } = create(() => Promise.reject(new PermanentError('no')));
    const unknown = { ...settled(), type: 'card.frozen' };
    const batch = await Promise.all([unknown, settled()].map((event) => messageOf(event)));

    expect(await failuresOf(handler, batch)).toEqual([]);
    expect(outcomes.map(({ kind }) => kind).sort()).toEqual(['dead', 'parked']);
  });

  test.each<[string, unknown]>([
    ['null', null],
    ['an empty object', {}],
    ['an event of API Gateway', { httpMethod: 'POST', headers: {}, body: '{}', isBase64Encoded: false }],
    ['an event of SNS', { Records: [{ EventSource: 'aws:sns', Sns: { Message: '{}' } }] }],
    ['an event of S3', { Records: [{ eventSource: 'aws:s3', s3: {} }] }],
    ['a record that is null', { Records: [null] }],
  ])(
    'an invocation with %s rejects with ERR_CONFIG_INVALID, so that Lambda does not take it for a success',
    async (_, event) => {
      const { handler, outcomes } = create();

      await expect(handler(event as SqsEvent)).rejects.toMatchObject({ code: 'ERR_CONFIG_INVALID' });
      expect(outcomes).toEqual([]);
    },
  );

  test('a batch with a message that has no id rejects before any message runs: it could not be reported as failed', async () => {
    const { handler, outcomes } = create();
    const { messageId: _, ...nameless } = await messageOf(settled());
    const batch = { Records: [await messageOf(settled()), nameless as SqsRecord] };

    await expect(handler(batch)).rejects.toMatchObject({ code: 'ERR_CONFIG_INVALID' });
    expect(outcomes).toEqual([]);
  });
});

describe('the order and number of messages that the SQS handler runs', () => {
  const groupOf = (names: readonly string[], queue: string) =>
    Promise.all(names.map((group) => messageOf(settled(), { group, queue })));

  test('the messages of a group of a FIFO queue run one after the other, in order, and groups run in parallel', async () => {
    const running = new Set<string>();
    const ran: string[] = [];
    const both = deferred();
    const names = ['a', 'b', 'a', 'b', 'a'];
    const batch = await groupOf(names, FIFO);
    const groups = new Map(
      batch.map(({ messageId, attributes }) => [messageId, attributes.MessageGroupId ?? '']),
    );
    const { handler } = create(async ({ id }) => {
      const group = groups.get(id) ?? '';
      expect(running.has(group)).toBe(false);
      running.add(group);
      if (running.size === 2) both.resolve();
      await both.promise;
      await setImmediate();
      ran.push(id);
      running.delete(group);
    });

    expect(await failuresOf(handler, batch)).toEqual([]);
    for (const group of ['a', 'b']) {
      const ids = [...groups].filter(([, name]) => name === group).map(([id]) => id);
      expect(ran.filter((id) => groups.get(id) === group)).toEqual(ids);
    }
  });

  test('after a message of a FIFO queue that failed, the later ones of its group do not run and are reported as failed', async () => {
    const [a1, b1, a2, b2, a3] = await groupOf(['a', 'b', 'a', 'b', 'a'], FIFO);
    const batch = [a1, b1, a2, b2, a3].flatMap((message) => message ?? []);
    const ran: string[] = [];
    const { handler } = create(async ({ id }) => {
      if (id === a2?.messageId) throw new Error('no');
      ran.push(id);
    });

    expect(await failuresOf(handler, batch)).toEqual([a2?.messageId, a3?.messageId]);
    expect(ran.sort()).toEqual([a1, b1, b2].map((message) => message?.messageId).sort());
  });

  test('in a standard queue, a message that failed does not keep back the others of its group', async () => {
    const batch = await groupOf(['tenant', 'tenant', 'tenant'], QUEUE);
    const { handler } = create(async ({ id }) => {
      if (id === batch[0]?.messageId) throw new Error('no');
    });

    expect(await failuresOf(handler, batch)).toEqual([batch[0]?.messageId]);
  });

  test.each([
    { limit: 'without maxConcurrency, 16', options: {}, width: 16 },
    { limit: 'with a maxConcurrency of 3, 3', options: { maxConcurrency: 3 }, width: 3 },
    { limit: 'with a maxConcurrency of 50, 16', options: { maxConcurrency: 50 }, width: 16 },
  ])('$limit messages run at a time, and none is reported as failed', async ({ options, width }) => {
    const full = deferred();
    let running = 0;
    let most = 0;
    const { handler, outcomes } = create(async () => {
      running += 1;
      most = Math.max(most, running);
      if (running === width) full.resolve();
      await full.promise;
      await setImmediate();
      running -= 1;
    }, options);
    const batch = await Promise.all(Array.from({ length: 40 }, () => messageOf(settled())));

    expect(await failuresOf(handler, batch)).toEqual([]);
    expect(most).toBe(width);
    expect(outcomes.map(({ kind }) => kind)).toEqual(batch.map(() => 'handled'));
  });

  test("under answer: 'recorded' the SQS handler ends when the handlers have ended, and one that fails is the inbox's to retry", async () => {
    const started = deferred();
    const gate = deferred();
    const [failing, waiting] = [settled(), settled()];
    const { handler, outcomes } = create(
      async ({ id }) => {
        if (id === failing.id) throw new Error('no');
        started.resolve();
        await gate.promise;
      },
      { answer: 'recorded' },
    );
    const batch = await Promise.all([failing, waiting].map((event) => messageOf(event)));

    const failed = failuresOf(handler, batch);
    await started.promise;
    expect(await isSettled(failed)).toBe(false);
    gate.resolve();

    expect(await failed).toEqual([]);
    expect(outcomes.map(({ kind }) => kind).sort()).toEqual(['failed', 'handled', 'queued', 'queued']);
  });

  test('the SQS handler ends when a handler that outlived handlerTimeoutMs has ended', async () => {
    const [gate, reported] = [deferred(), deferred()];
    const message = settled();
    const { handler } = create(() => gate.promise, {
      handlerTimeoutMs: 20,
      onOutcome: () => reported.resolve(),
    });

    const failed = failuresOf(handler, [await messageOf(message)]);
    await reported.promise;
    expect(await isSettled(failed)).toBe(false);
    gate.resolve();

    expect(await failed).toEqual([message.id]);
  });

  test("under answer: 'recorded' the next message of a FIFO group starts when the handler before it has ended", async () => {
    const batch = await groupOf(['a', 'a', 'a'], FIFO);
    const log: string[] = [];
    const { handler } = create(
      async ({ id }) => {
        log.push(`start ${id}`);
        await setImmediate();
        log.push(`end ${id}`);
      },
      { answer: 'recorded' },
    );

    expect(await failuresOf(handler, batch)).toEqual([]);
    expect(log).toEqual(batch.flatMap(({ messageId }) => [`start ${messageId}`, `end ${messageId}`]));
  });
});
