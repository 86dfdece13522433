import { setImmediate } from 'node:timers/promises';
import { createReceiver, memoryInbox } from 'stablehooks';
import { createPoller, toCronRoute } from 'stablehooks/catch-up';
import { exampleEvent } from 'stablehooks/testing';
import { expect, test, vi } from 'vitest';
import { startList } from './list-server.js';

const quiet = { warn: () => undefined, error: () => undefined };
const durableInbox = () => ({ ...memoryInbox(), durable: true });
const authorized = { authorization: 'Bearer cron-secret' };

function requestWith(headers: Record<string, string>): Request {
  return new Request('http://localhost/cron', { headers });
}

async function setUp(answer: Parameters<typeof startList>[0]) {
  let asked = 0;
  const client = await startList((question) => {
    asked += 1;
    return answer(question);
  });
  const receiver = createReceiver({ secret: 'secret', handlers: {}, inbox: durableInbox() });
  const poller = createPoller({ client, receiver, logger: quiet });
  const { GET } = toCronRoute(poller, { secret: 'cron-secret' });
  const get = (headers: Record<string, string>) => GET(requestWith(headers));
  return { get, client, poller, asked: () => asked };
}

test('a request with the secret runs one poll and is answered its report', async () => {
  const { get } = await setUp(() => []);
  for (const scheme of ['Bearer', 'bearer']) {
    const response = await get({ authorization: `${scheme} cron-secret` });
    expect(response.status).toBe(200);
    expect(await response.json()).toMatchObject({ proven: true, requests: 1 });
  }
});

test('an unconfirmed poll is answered 200', async () => {
  const events = Array.from({ length: 60 }, () => exampleEvent('transfer.settled'));
  const { client } = await setUp(() => events);
  const receiver = createReceiver({ secret: 'secret', handlers: {}, inbox: durableInbox() });
  const poller = createPoller({ client, receiver, since: new Date(0), logger: quiet });
  const response = await toCronRoute(poller, { secret: 'cron-secret' }).GET(requestWith(authorized));
  expect(response.status).toBe(200);
  expect(await response.json()).toMatchObject({
    proven: false,
    unconfirmed: true,
    gaps: [{ state: 'unconfirmed' }],
  });
});

test('a request without the secret is answered 401 and does not poll', async () => {
  const { get, asked } = await setUp(() => []);
  for (const authorization of [
    '',
    'Bearer',
    'Bearer cron-secre',
    'Bearer cron-secrets',
    'cron-secret',
    'Basic x',
  ]) {
    expect((await get({ authorization })).status).toBe(401);
  }
  expect((await get({})).status).toBe(401);
  expect(asked()).toBe(0);
});

test('the answer waits for a handler that outlived handlerTimeoutMs, until it ends or the poll is stopped', async () => {
  const events = [exampleEvent('transfer.settled')];
  const client = await startList(() => events);
  const ends: (() => void)[] = [];
  const overdue = new Set<string | undefined>();
  const inbox = durableInbox();
  let saved = 0;
  const receiver = createReceiver({
    secret: 'secret',
    inbox: {
      ...inbox,
      async writeNote(...note) {
        const isSaved = await inbox.writeNote(...note);
        saved += 1;
        return isSaved;
      },
    },
    handlers: { 'transfer.settled': () => new Promise<void>((resolve) => void ends.push(resolve)) },
    handlerTimeoutMs: 20,
    leaseMs: 600_000,
    onOutcome: ({ event }) => void overdue.add(event?.id),
    logger: quiet,
  });
  const poller = createPoller({ client, receiver, backfill: true, logger: quiet });
  const { GET } = toCronRoute(poller, { secret: 'cron-secret' });
  const get = async () => {
    const answer = GET(requestWith(authorized));
    let isAnswered = false;
    void answer.then(() => {
      isAnswered = true;
    });
    const polls = saved + 1;
    await vi.waitUntil(() => overdue.size === polls, { timeout: 60_000, interval: 1 });
    expect(saved).toBe(polls);
    await setImmediate();
    expect(isAnswered).toBe(false);
    return { answer };
  };

  const { answer } = await get();
  ends[0]?.();
  expect(await (await answer).json()).toMatchObject({ proven: true, failed: 1 });

  events.push(exampleEvent('transfer.settled'));
  const { answer: stopped } = await get();
  await poller.stop();
  expect(await (await stopped).json()).toMatchObject({ failed: 1 });
  ends[1]?.();
});

test('what a framework throws when the headers are read reaches it unchanged, and no line says that nothing was polled', async () => {
  const { poller, asked } = await setUp(() => []);
  const lines: string[] = [];
  const write = (line: string) => void lines.push(line);
  const { GET } = toCronRoute(poller, { secret: 'cron-secret', logger: { warn: write, error: write } });
  const dynamic = new Error('Route /cron used request.headers without first calling `await connection()`.');
  // As Next does when a build renders the route.
  const request = new Proxy(requestWith(authorized), {
    get(target, name) {
      if (name === 'headers') throw dynamic;
      return Reflect.get(target, name, target);
    },
  });
  await expect(GET(request)).rejects.toBe(dynamic);
  expect(lines).toEqual([]);
  expect(asked()).toBe(0);
});

test('a poll that proves nothing is answered 500', async () => {
  const { get } = await setUp(() => 503);
  const response = await get(authorized);
  expect(response.status).toBe(500);
  expect(await response.json()).toMatchObject({ proven: false });
});

test('a proven poll is answered 500 while what is due in the inbox cannot run, and one line says so', async () => {
  const client = await startList(() => []);
  const inbox = { ...durableInbox(), takeDue: () => Promise.reject(new Error('statement timeout')) };
  const receiver = createReceiver({ secret: 'secret', handlers: {}, inbox, logger: quiet });
  const lines: string[] = [];
  const logger = { ...quiet, error: (line: string) => void lines.push(line) };
  const { GET } = toCronRoute(createPoller({ client, receiver, logger }), { secret: 'cron-secret' });
  for (let request = 1; request <= 2; request++) {
    const response = await GET(requestWith(authorized));
    expect(response.status).toBe(500);
    expect(await response.json()).toMatchObject({
      proven: true,
      doubtful: true,
      problems: [{ code: 'ERR_INBOX_FAILED' }],
    });
  }
  expect(lines).toEqual([expect.stringMatching(/the poll failed\. ERR_INBOX_FAILED/)]);
});

test('toCronRoute refuses a secret that is empty or has white space around it, and a misspelt option', async () => {
  const { poller } = await setUp(() => []);
  for (const secret of ['', ' cron-secret', 'cron-secret\n']) {
    expect(() => toCronRoute(poller, { secret })).toThrow(
      /`secret` must be .* without white space around it/,
    );
  }
  const misspelt = { secret: 'cron-secret', secrt: 'x' };
  expect(() => toCronRoute(poller, misspelt)).toThrow('Valid options are ');
});

test('a poller whose inbox is not durable is answered 500, with the fix in one line and no poll', async () => {
  const { client, asked } = await setUp(() => []);
  const makeReceiver = () => createReceiver({ secret: 'secret', handlers: {} });
  const forms = [
    createPoller({ client, receiver: makeReceiver() }),
    createPoller({ client, receiver: makeReceiver }),
    () => createPoller({ client, receiver: makeReceiver }),
  ];
  for (const poller of forms) {
    const lines: string[] = [];
    const logger = { ...quiet, error: (line: string) => void lines.push(line) };
    const { GET } = toCronRoute(poller, { secret: 'cron-secret', logger });
    const response = await GET(requestWith(authorized));
    expect(response.status).toBe(500);
    expect(await response.json()).toEqual({ code: 'ERR_CONFIG_INVALID' });
    expect(lines).toEqual([
      expect.stringMatching(/not durable.*sqliteInbox, postgresInbox, mysqlInbox or redisInbox/),
    ]);
  }
  expect(asked()).toBe(0);
});

test('a poller that is given as a function is made once, at the first request with the secret, and the secret is read at each', async () => {
  const { poller } = await setUp(() => []);
  const asked: string[] = [];
  const environment: { secret?: string } = {};
  const lines: string[] = [];
  const { GET } = toCronRoute(
    () => {
      asked.push('poller');
      return poller;
    },
    {
      secret: () => {
        asked.push('secret');
        return environment.secret ?? '';
      },
      logger: { ...quiet, error: (line) => void lines.push(line) },
    },
  );
  expect(asked).toEqual([]);

  const misconfigured = await GET(requestWith({ authorization: 'Bearer ' }));
  expect(misconfigured.status).toBe(500);
  expect(lines).toEqual([expect.stringMatching(/toCronRoute: `secret` must be a non-empty string/)]);

  environment.secret = 'cron-secret';
  expect((await GET(requestWith({}))).status).toBe(401);
  expect((await GET(requestWith(authorized))).status).toBe(200);
  expect((await GET(requestWith(authorized))).status).toBe(200);
  expect(asked).toEqual(['secret', 'secret', 'secret', 'poller', 'secret']);
});
