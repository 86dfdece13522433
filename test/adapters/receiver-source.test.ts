/** Where a receiver is expected: the receiver itself, or a function that makes it at the first delivery. */
import type { Receiver } from 'stablehooks';
import { toExpressHandler } from 'stablehooks/express';
import { toFastifyPlugin } from 'stablehooks/fastify';
import { toFetchHandler } from 'stablehooks/fetch';
import { toLambdaHandler } from 'stablehooks/lambda';
import { toNextApiRoute, toNextRoute } from 'stablehooks/next';
import { toNodeHandler } from 'stablehooks/node';
import { exampleEvent, signedRequest } from 'stablehooks/testing';
import { expect, onTestFinished, test, vi } from 'vitest';
import { createObserved, secret } from './observed.js';

const ADAPTERS = {
  toExpressHandler,
  toFastifyPlugin,
  toFetchHandler,
  toLambdaHandler,
  toNextApiRoute,
  toNextRoute,
  toNodeHandler,
};

const post = async (handler: (request: Request) => Promise<Response>) =>
  await handler((await signedRequest(exampleEvent('transfer.settled'), { secret })).toRequest());

test.each(Object.entries(ADAPTERS))(
  '%s refuses anything but a receiver or a function, and calls no function before the first delivery',
  (name, toHandler) => {
    for (const wrong of [undefined, null, {}, 'receiver', { receive: () => undefined }]) {
      expect(() => toHandler(wrong as unknown as Receiver)).toThrow(
        expect.objectContaining({
          code: 'ERR_CONFIG_INVALID',
          message: expect.stringContaining(`${name}: \`receiver\` must be a receiver`),
        }),
      );
    }
    const make = vi.fn();
    toHandler(make);
    expect(make).not.toHaveBeenCalled();
  },
);

test.each(Object.entries(ADAPTERS))(
  '%s refuses a copy of a receiver, which would not be the receiver that runs',
  (_, toHandler) => {
    const { receiver } = createObserved();
    const copies = [{ ...receiver }, new Proxy(receiver, {}), Object.create(receiver) as typeof receiver];
    for (const copy of copies) {
      expect(() => toHandler(copy)).toThrow(expect.objectContaining({ code: 'ERR_CONFIG_INVALID' }));
    }
  },
);

test('a function is called at the first delivery, and its receiver is kept', async () => {
  const { receiver, outcomes } = createObserved();
  const make = vi.fn(() => receiver);
  const handler = toFetchHandler(make);

  expect((await post(handler)).status).toBe(200);
  expect((await post(handler)).status).toBe(200);
  expect(make).toHaveBeenCalledOnce();
  expect(outcomes.map(({ kind }) => kind)).toEqual(['handled', 'handled']);
});

test.each<[string, unknown, RegExp]>([
  [
    'throws',
    () => {
      throw new Error('no DATABASE_URL');
    },
    /the function that creates the receiver failed; see the cause\.\n.*no DATABASE_URL/,
  ],
  [
    'returns a promise',
    async () => createObserved().receiver,
    /`receiver` must be a receiver created by createReceiver/,
  ],
  ['returns nothing', () => undefined, /`receiver` must be a receiver created by createReceiver/],
])(
  'a function that %s is a logged 500 ERR_CONFIG_INVALID, and is called again at the next delivery',
  async (_, fails, words) => {
    const error = vi.spyOn(console, 'error').mockImplementation(() => undefined);
    onTestFinished(() => error.mockRestore());
    const { receiver } = createObserved();
    const make = vi.fn(() => receiver).mockImplementationOnce(fails as () => Receiver);
    const handler = toFetchHandler(make);

    const reply = await post(handler);
    expect(reply.status).toBe(500);
    expect(await reply.json()).toMatchObject({ code: 'ERR_CONFIG_INVALID' });
    expect(error.mock.calls).toEqual([[expect.stringMatching(words)]]);
    expect((await post(handler)).status).toBe(200);
  },
);
