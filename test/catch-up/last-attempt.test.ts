/** What the inbox knows about the last attempt to poll. */
import { createReceiver, memoryInbox } from 'stablehooks';
import { createPoller, readPollState } from 'stablehooks/catch-up';
import { createClient } from 'stablehooks/client';
import { expect, test } from 'vitest';

const quiet = { warn: () => undefined, error: () => undefined };
const START = Date.parse('2026-03-01T12:00:00Z');

function setUp() {
  const clock = { now: START };
  const service = { status: 200 };
  const runtime = { now: () => clock.now };
  const inbox = memoryInbox({ runtime });
  const client = createClient({
    baseUrl: 'https://service.example',
    token: 'the-token',
    retries: 0,
    fetch: async () => {
      if (service.status === 0) throw new TypeError('fetch failed');
      return Response.json([], { status: service.status });
    },
  });
  const receiver = createReceiver({ secret: 'secret', inbox, handlers: {}, logger: quiet });
  const poller = createPoller({ client, receiver, runtime, logger: quiet });
  const attempt = async (status: number, signal?: AbortSignal) => {
    service.status = status;
    clock.now += 60_000;
    await poller.pollOnce({ signal });
    return (await readPollState(inbox)).lastAttempt;
  };
  return { attempt };
}

test.each([401, 404, 500, 0])(
  'a list that answers %i from the start is kept with its code, its words and since when',
  async (status) => {
    const { attempt } = setUp();
    const first = await attempt(status);
    expect(first).toMatchObject({ at: START + 60_000, failingSince: START + 60_000 });
    expect(first?.error).toMatch(/^ERR_API_/);
    expect(first?.message).toMatch(status === 0 ? /./ : new RegExp(`\\b${status}\\b`));
    expect(first?.message).not.toContain('the-token');
    expect(await attempt(status)).toEqual({ ...first, at: START + 120_000 });
  },
);

test('a success, a later failure and a poll that is stopped each say what happened last', async () => {
  const { attempt } = setUp();
  expect(await attempt(200)).toEqual({ at: START + 60_000 });
  expect(await attempt(503)).toMatchObject({ at: START + 120_000, failingSince: START + 120_000 });
  expect(await attempt(200, AbortSignal.abort())).toMatchObject({ at: START + 120_000 });
  expect(await attempt(200)).toEqual({ at: START + 240_000 });
});
