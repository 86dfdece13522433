/** How an outcome is answered, and how it is logged. */
import {
  BusyError,
  createReceiver,
  logOutcome,
  memoryInbox,
  type Outcome,
  RequestError,
  toWebhookResponse,
  UnavailableError,
} from 'stablehooks';
import { expect, test } from 'vitest';
import { anEvent, delivery, secret } from './delivery.js';

const event = anEvent({ id: 'evt_logged' });

test.each([
  ['handled', 200],
  ['ignored', 200],
  ['parked', 200],
  ['duplicate', 200],
  ['dead', 200],
  ['queued', 202],
] as const)('%s is answered %i with JSON that names it', (kind, status) => {
  expect(toWebhookResponse({ kind, origin: 'push', event } as unknown as Outcome)).toEqual({
    status,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ outcome: kind }),
  });
});

test.each<[Outcome['kind'], Outcome['error'], boolean, string]>([
  [
    'rejected',
    new RequestError('ERR_BODY_TOO_LARGE', 'Too large.'),
    false,
    'warn stablehooks: rejected (push) ERR_BODY_TOO_LARGE: Too large.',
  ],
  [
    'busy',
    new BusyError('ERR_EVENT_BUSY', 'Runs already.', { retryAfterMs: 1 }),
    true,
    'warn stablehooks: busy transfer.settled evt_logged (push) ERR_EVENT_BUSY: Runs already.',
  ],
  [
    'unavailable',
    new UnavailableError('ERR_INBOX_FAILED', 'Down.', { cause: 'no route' }),
    true,
    'error stablehooks: unavailable transfer.settled evt_logged (push) ERR_INBOX_FAILED: Down.\ncaused by no route',
  ],
])('%s is logged in one line, with its event and its cause if it has them', (kind, error, hasEvent, line) => {
  const lines: string[] = [];
  const logger = {
    warn: (text: string) => void lines.push(`warn ${text}`),
    error: (text: string) => void lines.push(`error ${text}`),
  };
  logOutcome({ kind, origin: 'push', error, ...(hasEvent && { event }) } as unknown as Outcome, logger);
  expect(lines).toEqual([line]);
});

test('what is thrown and expected by nobody is answered 500 ERR_CONFIG_INVALID, with it as the cause', async () => {
  const thrown = Object.assign(new Error('not ours'), { code: 'ERR_EVENT_BUSY' });
  const outcomes: Outcome[] = [];
  const receiver = createReceiver({
    secret,
    handlers: {},
    logger: { warn: () => undefined, error: () => undefined },
    onOutcome: (outcome) => void outcomes.push(outcome),
  });
  const request = { ...(await delivery(event)), body: () => Promise.reject(thrown) };
  expect(toWebhookResponse(await receiver.receive(request)).status).toBe(500);
  expect(outcomes).toMatchObject([
    {
      kind: 'failed',
      error: {
        code: 'ERR_CONFIG_INVALID',
        message: 'The receiver met an unexpected error; see the cause.',
        cause: thrown,
      },
    },
  ]);
});

test('a body of 1 MiB is read by default, and one of a byte more is not', async () => {
  const receiver = createReceiver({ secret, handlers: {}, inbox: memoryInbox() });
  const limits: number[] = [];
  const request = await delivery(event);
  await receiver.receive({
    ...request,
    body: (maxBytes) => {
      limits.push(maxBytes);
      return request.body(maxBytes);
    },
  });
  expect(limits).toEqual([1_048_576]);
});
