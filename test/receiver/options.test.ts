import { createReceiver, memoryInbox } from 'stablehooks';
import { describe, expect, test } from 'vitest';
import { anEvent, delivery, secret } from './delivery.js';

const good = { secret: 's', handlers: {} };
const INBOX_METHODS = ['claim', 'complete', 'fail', 'record', 'takeDue', 'acquirePoll', 'savePoll'] as const;

describe('createReceiver', () => {
  test.each<[string, unknown, RegExp]>([
    ['no secret', { handlers: {} }, /secret/],
    ['an empty secret', { ...good, secret: '' }, /secret/],
    ['an empty list of secrets', { ...good, secret: [] }, /secret/],
    [
      'a misspelt option',
      { ...good, handlerTimeout: 5 },
      /unknown option `handlerTimeout`\. The options are .*handlerTimeoutMs/,
    ],
    [
      'a misspelt type',
      { ...good, handlers: { 'transfer.setled': () => undefined } },
      /`transfer\.setled`\. The options are .*transfer\.settled/,
    ],
    ['a misspelt payload', { ...good, payloads: { transfer: {} } }, /`payloads`: unknown option `transfer`/],
    ['no handlers', { secret: 's' }, /`handlers`/],
    [
      'a handler that is not a function',
      { ...good, handlers: { 'transfer.settled': 'run' } },
      /`transfer\.settled` must be a function\.$/,
    ],
    [
      'a handler that is undefined, such as a misspelt import',
      { ...good, handlers: { 'transfer.settled': undefined } },
      /`handlers`: `transfer\.settled` must be a function, and is undefined: check its import, or leave the type out\./,
    ],
    [
      'handlers in a map',
      { ...good, handlers: new Map([['transfer.settled', () => undefined]]) },
      /`handlers` must be an object of functions by event type/,
    ],
    [
      'a promise of handlers',
      { ...good, handlers: Promise.resolve({ 'transfer.settled': () => undefined }) },
      /`handlers` must be an object of functions by event type/,
    ],
    [
      'a schema that is undefined',
      { ...good, payloads: { 'transfer.settled': undefined } },
      /`payloads`: `transfer\.settled` must be a Standard Schema, and is undefined/,
    ],
    ['a limit of 0 bytes', { ...good, maxBodyBytes: 0 }, /maxBodyBytes/],
    ['a fraction of a millisecond', { ...good, leaseMs: 0.5 }, /leaseMs/],
    ['a time longer than timers take', { ...good, handlerTimeoutMs: 2 ** 31 }, /handlerTimeoutMs/],
    ['attempts as a string', { ...good, maxAttempts: '3' }, /maxAttempts/],
    ['a lease shorter than a handler', { ...good, leaseMs: 10_000, handlerTimeoutMs: 10_000 }, /leaseMs/],
    ['an unknown encoding', { ...good, encoding: 'utf8' }, /encoding/],
    [
      'a queue without a durable inbox',
      { ...good, inbox: memoryInbox(), queue: { enqueue() {} } },
      /durable/,
    ],
    ['no options', undefined, /createReceiver/],
    ['an inbox without methods', { ...good, inbox: {} }, /`inbox` must be an inbox/],
    ['an inbox that is null', { ...good, inbox: null }, /`inbox` must be an inbox/],
    ['an inbox that is a number', { ...good, inbox: 7 }, /`inbox` must be an inbox/],
    ...INBOX_METHODS.map((name): [string, unknown, RegExp] => [
      `an inbox without ${name}`,
      { ...good, inbox: { ...memoryInbox(), [name]: undefined } },
      /`inbox` must be an inbox/,
    ]),
    ['handlers that are null', { ...good, handlers: null }, /`handlers` must be an object of functions/],
    ['handlers that are a number', { ...good, handlers: 7 }, /`handlers` must be an object of functions/],
    ['payloads that are a text', { ...good, payloads: 'none' }, /`payloads` must be an object of schemas/],
    [
      'a schema that is null',
      { ...good, payloads: { 'transfer.settled': null } },
      /`transfer\.settled` must be a Standard Schema\.$/,
    ],
    ['a logger without methods', { ...good, logger: {} }, /`logger` must be a logger, such as console/],
    ['a logger that cannot warn', { ...good, logger: { error() {} } }, /`logger` must be a logger/],
    [
      'a signaturePrefix that is a number',
      { ...good, signaturePrefix: 7 },
      /`signaturePrefix` must be a string/,
    ],
    ['a signatureHeader that is a number', { ...good, signatureHeader: 7 }, /must be the name of a header/],
    [
      'an empty signatureHeader',
      { ...good, signatureHeader: '' },
      /`signatureHeader` must be the name of a header/,
    ],
    [
      'a payload schema that is not a Standard Schema',
      { ...good, payloads: { 'transfer.settled': { amount: 'string' } } },
      /`transfer\.settled` must be a Standard Schema/,
    ],
    ['a queue without enqueue', { ...good, queue: {} }, /`queue` must be a queue/],
    ['an onOutcome that is not a function', { ...good, onOutcome: 'log' }, /`onOutcome` must be a function/],
    [
      'an answer before the handler without a durable inbox',
      { ...good, acknowledge: 'recorded' },
      /`acknowledge: 'recorded'` needs a durable `inbox`/,
    ],
  ])('createReceiver throws ERR_CONFIG_INVALID for %s', (_name, options, message) => {
    const create = () => createReceiver(options as Parameters<typeof createReceiver>[0]);
    expect(create).toThrow(expect.objectContaining({ code: 'ERR_CONFIG_INVALID' }));
    expect(create).toThrow(message);
  });

  test('the inbox that a receiver makes follows the runtime of the receiver', async () => {
    const clock = { ms: 1_000 };
    const kinds: string[] = [];
    const receiver = createReceiver({
      secret,
      handlers: {
        'transfer.settled'() {
          if (clock.ms === 1_000) throw new Error('not yet');
        },
      },
      logger: { warn: () => undefined, error: () => undefined },
      onOutcome: ({ kind, error }) => void kinds.push(error?.code ?? kind),
      runtime: { now: () => clock.ms },
    });
    await receiver.receive(await delivery(anEvent()));
    clock.ms += 3_600_000;
    await receiver.redrive();
    expect(kinds).toEqual(['ERR_HANDLER_FAILED', 'handled']);
  });
});
