import { createReceiver, memoryInbox } from 'stablehooks';
import { expect, test } from 'vitest';
import { durable, HOUR_MS } from './set-up.js';

const good = { secret: 's', handlers: {} };
const handler = () => undefined;
const INBOX_METHODS = [
  ...['claim', 'ignore', 'complete', 'fail', 'record', 'takeDue', 'readNote', 'writeNote', 'leaseNote'],
];

const toHandlers = (value: unknown) => ({ ...good, handlers: { 'transfer.settled': value } });

test.each<[string, unknown, RegExp]>([
  ['no options', undefined, /createReceiver: the options must be an object/],
  ['no secret', { handlers: {} }, /`secret` must be given/],
  ['an empty secret', { ...good, secret: '' }, /`secret` is empty/],
  [
    'the unset old secret of a rotation',
    { ...good, secret: ['new', ''] },
    /`secret\[1\]` is empty\. .*leave the element out, as in `OLD \? \[NEW, OLD\] : NEW`/,
  ],
  ['an empty list of secrets', { ...good, secret: [] }, /`secret` must be a string without/],
  ['a misspelt option', { ...good, handlerTimeout: 5 }, /unknown option `handlerTimeout`.*handlerTimeoutMs/],
  ['no handlers', { secret: 's' }, /`handlers` must be an object that maps event types to functions/],
  [
    'handlers in a map',
    { ...good, handlers: new Map([['transfer.settled', handler]]) },
    /`handlers` must be an object/,
  ],
  ['a promise of handlers', { ...good, handlers: Promise.resolve({}) }, /`handlers` must be an object/],
  ['handlers that are null', { ...good, handlers: null }, /`handlers` must be an object/],
  ['handlers that are a number', { ...good, handlers: 7 }, /`handlers` must be an object/],
  [
    'a misspelt type',
    { ...good, handlers: { 'transfer.setled': handler } },
    /`handlers`: unknown option `transfer\.setled`\. Valid options are .*transfer\.settled/,
  ],
  ['a handler that is not a function', toHandlers('run'), /`transfer\.settled` must be a function\.$/],
  [
    'a handler that is undefined, such as a misspelt import',
    toHandlers(undefined),
    /`handlers`: `transfer\.settled` must be a function, but is undefined: check its import, or leave the type out\./,
  ],
  ['a limit of 0 bytes', { ...good, maxBodyBytes: 0 }, /`maxBodyBytes` must be an integer from 1/],
  ['a fraction of a millisecond', { ...good, leaseMs: 0.5 }, /`leaseMs` must be an integer/],
  [
    'a time longer than timers take',
    { ...good, handlerTimeoutMs: 2 ** 31 },
    /`handlerTimeoutMs` must be an integer/,
  ],
  ['attempts as a string', { ...good, maxAttempts: '3' }, /`maxAttempts` must be an integer/],
  [
    'a lease shorter than a handler',
    { ...good, leaseMs: 10_000 },
    /`leaseMs` \(10000\) must be greater than/,
  ],
  ['a signature that is a string', { ...good, signature: 'hex' }, /`signature` must be an object/],
  [
    'an unknown part of the signature',
    { ...good, signature: { name: 'X' } },
    /`signature`: unknown option `name`/,
  ],
  [
    'an unknown encoding',
    { ...good, signature: { encoding: 'utf8' } },
    /`encoding` must be one of hex, base64,/,
  ],
  ['a prefix that is a number', { ...good, signature: { prefix: 7 } }, /`prefix` must be a string/],
  ...['', 'x y', 'x:y', 7].map((header): [string, unknown, RegExp] => [
    `the header ${JSON.stringify(header)}`,
    { ...good, signature: { header } },
    /`signature`: `header` must be a header name/,
  ]),
  ...[{}, null, 7, () => memoryInbox()].map((inbox): [string, unknown, RegExp] => [
    `an inbox that is ${typeof inbox} ${JSON.stringify(inbox)}`,
    { ...good, inbox },
    /`inbox` must be an inbox/,
  ]),
  ...[...INBOX_METHODS, 'durable'].map((name): [string, unknown, RegExp] => [
    `an inbox without ${name}`,
    { ...good, inbox: { ...memoryInbox(), [name]: undefined } },
    /`inbox` must be an inbox/,
  ]),
  [
    'a logger that cannot warn',
    { ...good, logger: { error() {} } },
    /`logger` must be a logger, such as console/,
  ],
  ['a queue without enqueue', { ...good, queue: {} }, /`queue` must be a queue/],
  ['an onOutcome that is not a function', { ...good, onOutcome: 'log' }, /`onOutcome` must be a function/],
  ['a layer that is not in a list', { ...good, use: {} }, /`use` must be a list of layers/],
  [
    'a queue with an inbox in memory',
    { ...good, queue: { enqueue() {} } },
    /a `queue` needs a durable `inbox`.*postgresInbox, mysqlInbox or redisInbox/,
  ],
  [
    "answer: 'recorded' with an inbox in memory",
    { ...good, answer: 'recorded' },
    /`answer: 'recorded'` needs a durable .*postgresInbox, mysqlInbox, redisInbox or durableObjectInbox/,
  ],
  [
    "answer: 'recorded' with a queue",
    { ...good, inbox: durable(), queue: { enqueue() {} }, answer: 'recorded' },
    /with a `queue`, the receiver already responds as soon as a delivery is enqueued/,
  ],
])('createReceiver throws ERR_CONFIG_INVALID for %s', (_name, options, message) => {
  const create = () => createReceiver(options as Parameters<typeof createReceiver>[0]);
  expect(create).toThrow(expect.objectContaining({ code: 'ERR_CONFIG_INVALID' }));
  expect(create).toThrow(message);
});

test('the inbox that a receiver makes follows the runtime of the receiver', async () => {
  const clock = { ms: 1_000 };
  const receiver = createReceiver({ ...good, runtime: { now: () => clock.ms } });
  const lease = (holder: string) => receiver.inbox.leaseNote('a note', { holder, leaseMs: HOUR_MS });
  expect([lease('first'), lease('second')]).toEqual([true, false]);
  clock.ms += HOUR_MS;
  expect(lease('second')).toBe(true);
});

test('rehearse over an inbox without transactions is refused, and names the inboxes that have them', async () => {
  await expect(
    createReceiver({ ...good, inbox: memoryInbox() }).rehearse({ limit: 1 }),
  ).rejects.toMatchObject({
    code: 'ERR_CONFIG_INVALID',
    message: expect.stringContaining('`transactional: true` to sqliteInbox, postgresInbox or mysqlInbox.'),
  });
});
