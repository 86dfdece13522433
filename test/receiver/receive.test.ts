import { inspect } from 'node:util';
import { pino } from 'pino';
import {
  createReceiver,
  memoryInbox,
  type Outcome,
  type Queue,
  type ReceiverOptions,
  RequestError,
  sign,
  toWebhookResponse,
  type UnknownEvent,
  type WebhookRequest,
} from 'stablehooks';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { anEvent, bytesOf, deferred, delivery, secret } from './delivery.js';

afterEach(() => vi.restoreAllMocks());

function setUp(options: Partial<ReceiverOptions> = {}) {
  const ran: UnknownEvent[] = [];
  const outcomes: Outcome[] = [];
  const receiver = createReceiver({
    secret,
    handlers: { 'transfer.settled': (event) => void ran.push(event) },
    onOutcome: (outcome) => void outcomes.push(outcome),
    ...options,
  });
  return { receiver, ran, outcomes };
}

function missing(): never {
  throw new Error('It is not there.');
}

describe('an authentic delivery', () => {
  test('a delivery is handled once, and is a duplicate from then on', async () => {
    const { receiver, ran } = setUp();
    const event = anEvent();
    expect(await receiver.receive(await delivery(event))).toEqual({
      kind: 'handled',
      origin: 'push',
      event,
      secretIndex: 0,
      attempt: 1,
      handlerMs: expect.any(Number),
    });
    expect(await receiver.receive(await delivery(event))).toEqual({
      kind: 'duplicate',
      origin: 'push',
      event,
      secretIndex: 0,
    });
    expect(ran).toEqual([event]);
  });

  test('a delivery of a type without a handler is ignored, each time it comes', async () => {
    const { receiver, outcomes } = setUp();
    const event = anEvent({ type: 'redeem.failed' });
    for (const _ of [1, 2, 3]) await receiver.receive(await delivery(event));
    expect(outcomes.map(({ kind, attempt }) => [kind, attempt])).toEqual([
      ['ignored', 1],
      ['ignored', undefined],
      ['ignored', undefined],
    ]);
  });

  test('an event that was ignored is a duplicate once its type has a handler, which does not run it', async () => {
    const inbox = memoryInbox();
    const event = anEvent();
    const without = setUp({ inbox, handlers: {} });
    expect((await without.receiver.receive(await delivery(event))).kind).toBe('ignored');
    const { receiver, ran } = setUp({ inbox });
    expect((await receiver.receive(await delivery(event))).kind).toBe('duplicate');
    expect(ran).toEqual([]);
  });

  test.each(['accept', 'handle'] as const)(
    '%s ignores an event of a type without a handler that is done, whoever has done it',
    async (method) => {
      const inbox = memoryInbox();
      const event = anEvent();
      await setUp({ inbox }).receiver.receive(await delivery(event));
      const { receiver } = setUp({ inbox, handlers: {} });
      expect(await receiver[method](event, 'pull')).toEqual({ kind: 'ignored', origin: 'pull', event });
    },
  );

  test('with a queue, an event that is done is a duplicate in a process that has no handlers', async () => {
    const inbox = { ...memoryInbox(), durable: true };
    const event = anEvent();
    await setUp({ inbox }).receiver.receive(await delivery(event));
    const enqueue = vi.fn(async () => undefined);
    const { receiver } = setUp({ inbox, handlers: {}, queue: { enqueue } });
    expect((await receiver.receive(await delivery(event))).kind).toBe('duplicate');
    expect(enqueue).not.toHaveBeenCalled();
  });

  test.each<[string, unknown]>([
    ['null', null],
    ['undefined', undefined],
    [
      'an object with a logger that cannot be read',
      Object.defineProperty({ method: 'POST' }, 'logger', { get: () => missing() }),
    ],
  ])('receive fails with ERR_CONFIG_INVALID for %s, which is no request', async (_, request) => {
    const error = vi.spyOn(console, 'error').mockReturnValue();
    const { receiver } = setUp({ onOutcome: missing });
    const outcome = await receiver.receive(request as WebhookRequest);
    expect(outcome).toMatchObject({ kind: 'failed', origin: 'push', error: { code: 'ERR_CONFIG_INVALID' } });
    expect(error.mock.calls).toEqual([
      [expect.stringContaining('failed (push) ERR_CONFIG_INVALID')],
      [expect.stringContaining('onOutcome threw an error')],
    ]);
  });

  test('a delivery of an unknown type is parked, and onUnknown is called once', async () => {
    const onUnknown = vi.fn();
    const { receiver } = setUp({ onUnknown });
    const event = anEvent({ type: 'mint.completed' });
    expect((await receiver.receive(await delivery(event))).kind).toBe('parked');
    expect(onUnknown.mock.calls).toEqual([[event]]);
    expect((await receiver.receive(await delivery(event))).kind).toBe('parked');
    expect(onUnknown).toHaveBeenCalledOnce();
  });

  test('an onUnknown that throws is logged under its name, and its event is parked', async () => {
    const error = vi.fn();
    const { receiver } = setUp({
      onUnknown: () => {
        throw new Error('observer');
      },
      logger: { warn: vi.fn(), error },
    });
    const outcome = await receiver.receive(await delivery(anEvent({ type: 'mint.completed' })));
    expect(outcome.kind).toBe('parked');
    expect(error.mock.calls).toEqual([[expect.stringMatching(/onUnknown threw an error.*observer/s)]]);
  });

  test('a delivery of a type that another release knows and has handled is a duplicate', async () => {
    const inbox = memoryInbox();
    const event = anEvent({ type: 'mint.completed' });
    const claim = await inbox.claim(event, { leaseMs: 60_000, origin: 'push' });
    if (claim.state === 'claimed') await inbox.complete(claim.lease);
    const { receiver } = setUp({ inbox });
    expect((await receiver.receive(await delivery(event))).kind).toBe('duplicate');
  });

  test('a delivery of a type that another release knows and has dead-lettered is dead', async () => {
    const inbox = memoryInbox();
    const event = anEvent({ type: 'mint.completed' });
    const claim = await inbox.claim(event, { leaseMs: 1_000, origin: 'push' });
    if (claim.state === 'claimed') await inbox.fail(claim.lease, { retryAfterMs: null, error: 'gave up' });
    const { receiver } = setUp({ inbox });
    const outcome = await receiver.receive(await delivery(event));
    expect([outcome.kind, toWebhookResponse(outcome).status]).toEqual(['dead', 200]);
  });

  test('a delivery to a receiver that is closed is refused before its body is read', async () => {
    const { receiver } = setUp();
    await receiver.close();
    const request = await delivery(anEvent());
    expect((await receiver.receive(request)).error?.code).toBe('ERR_RECEIVER_CLOSED');
    expect(request.reads).toBe(0);
  });

  test.each(['identity', 'Identity ', '', undefined, 'utf-8', 'UTF-8, identity', 'aws-chunked', 'gzipped'])(
    'a delivery with content-encoding %j, which names no compression, is accepted',
    async (encoding) => {
      const { receiver } = setUp();
      const request = await delivery(anEvent(), { headers: { 'content-encoding': encoding } });
      expect((await receiver.receive(request)).kind).toBe('handled');
    },
  );

  test('a signature is accepted only in the configured header, prefix and encoding', async () => {
    const { receiver } = setUp({
      signatureHeader: 'X-Acme-Signature',
      signaturePrefix: 'v1=',
      encoding: 'base64',
    });
    const event = anEvent();
    const signature = await sign(bytesOf(event), { secret, prefix: 'v1=', encoding: 'base64' });
    const good = await delivery(event, { headers: { 'X-Acme-Signature': signature } });
    expect((await receiver.receive(good)).kind).toBe('handled');
    const hex = await sign(bytesOf(event), { secret, prefix: 'v1=' });
    const bad = await receiver.receive(await delivery(event, { headers: { 'X-Acme-Signature': hex } }));
    expect(bad.error?.code).toBe('ERR_SIGNATURE_MALFORMED');
    expect((await receiver.receive(await delivery(event))).error?.code).toBe('ERR_SIGNATURE_MISSING');
  });
});

describe('secrets', () => {
  test.each<[string, ReceiverOptions['secret']]>([
    ['bytes', bytesOf(secret)],
    ['a list', ['old', secret]],
    ['a function', () => secret],
    ['an async function', async () => ['new', bytesOf(secret)]],
  ])('a secret can be %s', async (_name, given) => {
    const { receiver, ran } = setUp({ secret: given });
    expect((await receiver.receive(await delivery(anEvent()))).kind).toBe('handled');
    expect(ran.length).toBe(1);
  });

  test.each([
    ['a Buffer', (bytes: Uint8Array) => Buffer.from(bytes)],
    ['a Uint8Array', (bytes: Uint8Array) => new Uint8Array(bytes)],
  ])('%s that is cleared after createReceiver does not change the secret', async (_name, copy) => {
    const cleared = copy(bytesOf(secret));
    const list = [cleared];
    const { receiver } = setUp({ secret: list });
    cleared.fill(0);
    list.pop();
    expect((await receiver.receive(await delivery(anEvent()))).kind).toBe('handled');
    const zeroed = await sign(bytesOf(anEvent()), { secret: new Uint8Array(secret.length) });
    const forged = await delivery(anEvent(), { headers: { 'X-SERVICE-Signature': zeroed } });
    expect((await receiver.receive(forged)).error?.code).toBe('ERR_SIGNATURE_MISMATCH');
  });

  test('a secret function is called at each delivery, so that rotation needs no restart', async () => {
    let current = 'old';
    const { receiver } = setUp({ secret: () => current });
    const event = anEvent();
    expect((await receiver.receive(await delivery(event))).error?.code).toBe('ERR_SIGNATURE_MISMATCH');
    current = secret;
    expect((await receiver.receive(await delivery(event))).kind).toBe('handled');
  });

  test('a secret function that fails is unavailable, and one that gives no secret is failed; neither is answered 401', async () => {
    const failing = setUp({ secret: () => Promise.reject(new Error('vault down')) }).receiver;
    const refused = await failing.receive(await delivery(anEvent()));
    expect(refused).toMatchObject({ kind: 'unavailable', error: { code: 'ERR_SECRET_UNAVAILABLE' } });
    expect(toWebhookResponse(refused).status).toBe(503);
    const empty = await setUp({ secret: () => '' }).receiver.receive(await delivery(anEvent()));
    expect(empty).toMatchObject({ kind: 'failed', error: { code: 'ERR_CONFIG_INVALID' } });
    expect(toWebhookResponse(empty).status).toBe(500);
  });
});

describe('what is not a delivery', () => {
  test.each<[string, number, string, Parameters<typeof delivery>[1]]>([
    ['GET', 405, 'ERR_METHOD_NOT_ALLOWED', { method: 'GET' }],
    ['HEAD', 405, 'ERR_METHOD_NOT_ALLOWED', { method: 'HEAD' }],
    ['gzip', 415, 'ERR_BODY_ENCODED', { headers: { 'content-encoding': 'gzip' } }],
    ['gzip after identity', 415, 'ERR_BODY_ENCODED', { headers: { 'content-encoding': 'identity, gzip' } }],
    ['Brotli', 415, 'ERR_BODY_ENCODED', { headers: { 'content-encoding': 'utf-8,BR' } }],
    ['no signature', 401, 'ERR_SIGNATURE_MISSING', { headers: { 'X-SERVICE-Signature': undefined } }],
    ['an empty signature', 401, 'ERR_SIGNATURE_MISSING', { headers: { 'X-SERVICE-Signature': '' } }],
    ['a malformed signature', 401, 'ERR_SIGNATURE_MALFORMED', { headers: { 'X-SERVICE-Signature': 'abc' } }],
  ])('a request with %s is rejected before the body is read', async (_name, status, code, how) => {
    const { receiver, ran } = setUp();
    const request = await delivery(anEvent(), how);
    const outcome = await receiver.receive(request);
    expect(outcome).toMatchObject({ kind: 'rejected', error: { code } });
    expect(toWebhookResponse(outcome).status).toBe(status);
    expect(request.reads).toBe(0);
    expect(ran).toEqual([]);
  });

  test('a wrong signature is rejected before the body is parsed', async () => {
    const { receiver } = setUp();
    const request = await delivery('not even JSON', { headers: { 'X-SERVICE-Signature': '0'.repeat(64) } });
    expect(await receiver.receive(request)).toMatchObject({
      kind: 'rejected',
      error: { code: 'ERR_SIGNATURE_MISMATCH' },
    });
  });

  test('an authentic body that is not an event is answered 400', async () => {
    const { receiver } = setUp();
    const outcome = await receiver.receive(await delivery('{"hello":"world"}'));
    expect(outcome).toMatchObject({ kind: 'rejected', error: { code: 'ERR_EVENT_MALFORMED' } });
    expect(toWebhookResponse(outcome).status).toBe(400);
  });
});

describe('responses', () => {
  const marked = /planted|whsec|stack|Error:/;

  test('a response holds the outcome, or a problem with a stable code, and nothing else', async () => {
    const { receiver } = setUp({
      handlers: { 'transfer.settled': () => Promise.reject(new Error('planted message')) },
    });
    const event = anEvent();
    const failed = toWebhookResponse(await receiver.receive(await delivery(event)));
    expect(failed).toEqual({
      status: 500,
      headers: { 'content-type': 'application/problem+json' },
      body: JSON.stringify({
        title: 'Internal Server Error',
        status: 500,
        code: 'ERR_HANDLER_FAILED',
        outcome: 'failed',
      }),
    });
    const forged = toWebhookResponse(
      await receiver.receive(await delivery(event, { headers: { 'X-SERVICE-Signature': '0'.repeat(64) } })),
    );
    for (const { body } of [failed, forged]) expect(body).not.toMatch(marked);
  });

  test('a 405 response has Allow, and a 503 response has Retry-After', async () => {
    const { receiver } = setUp({
      inbox: { ...memoryInbox(), claim: () => Promise.reject(new Error('down')) },
    });
    expect(
      toWebhookResponse(await receiver.receive(await delivery('', { method: 'PUT' }))).headers['allow'],
    ).toBe('POST');
    const down = toWebhookResponse(await receiver.receive(await delivery(anEvent())));
    expect(down.status).toBe(503);
    expect(Number(down.headers['retry-after'])).toBeGreaterThan(0);
  });
});

describe('onOutcome', () => {
  test('onOutcome is called once with every outcome', async () => {
    const { receiver, outcomes } = setUp();
    const event = anEvent();
    await receiver.receive(await delivery(event));
    await receiver.receive(await delivery(event));
    await receiver.receive(await delivery('', { method: 'GET' }));
    expect(outcomes.map(({ kind }) => kind)).toEqual(['handled', 'duplicate', 'rejected']);
  });

  test.each<[string, () => void | Promise<void>]>([
    [
      'throws',
      () => {
        throw new Error('observer');
      },
    ],
    ['rejects', () => Promise.reject(new Error('observer'))],
  ])('an onOutcome that %s is logged and changes nothing', async (_name, onOutcome) => {
    const log = vi.spyOn(console, 'error').mockReturnValue();
    const { receiver } = setUp({ onOutcome });
    expect((await receiver.receive(await delivery(anEvent()))).kind).toBe('handled');
    await expect.poll(() => log.mock.calls.length).toBe(1);
  });

  test('onOutcome does not replace the lines that name the fix, and no line holds the payload', async () => {
    const warn = vi.spyOn(console, 'warn').mockReturnValue();
    const error = vi.spyOn(console, 'error').mockReturnValue();
    const receiver = createReceiver({
      secret,
      handlers: { 'transfer.settled': () => Promise.reject(new Error('ledger down')) },
      onOutcome: () => undefined,
    });
    const event = anEvent();
    await receiver.receive(await delivery(event, { headers: { 'X-SERVICE-Signature': '0'.repeat(64) } }));
    await receiver.receive(await delivery(event));
    await receiver.receive(await delivery(anEvent({ type: 'redeem.failed' })));
    expect(warn.mock.calls.join()).toMatch(/rejected.*ERR_SIGNATURE_MISMATCH.*Check the secret/);
    expect(error.mock.calls.join()).toMatch(
      new RegExp(`failed transfer.settled ${event.id}.*ERR_HANDLER_FAILED`),
    );
    expect(error.mock.calls.join()).toContain('ledger down');
    expect([...warn.mock.calls, ...error.mock.calls].join()).not.toMatch(/planted payload|whsec_/);
  });
});

/** Remembers the lines of a logger. */
function listen() {
  const lines: string[] = [];
  const logger = {
    warn: (line: string) => void lines.push(line),
    error: (line: string) => void lines.push(line),
  };
  return { lines, logger };
}

describe('logging', () => {
  test('the logger option takes every line, also those about failing observers, as one string each', async () => {
    const console_ = [vi.spyOn(console, 'warn'), vi.spyOn(console, 'error')];
    const { lines, logger } = listen();
    const { receiver } = setUp({
      logger,
      handlers: { 'transfer.settled': () => Promise.reject(new Error('ledger down')) },
      onOutcome: () => Promise.reject(new Error('observer')),
    });
    await receiver.receive(await delivery(anEvent()));
    await expect.poll(() => lines).toHaveLength(2);
    expect(lines[0]).toMatch(/^stablehooks: failed transfer\.settled .*ERR_HANDLER_FAILED: .*ledger down/s);
    expect(lines[1]).toMatch(/^stablehooks: onOutcome threw .*observer/s);
    for (const spy of console_) expect(spy).not.toHaveBeenCalled();
  });

  test('a logger that throws changes no outcome', async () => {
    const refuse = () => {
      throw new Error('no disk');
    };
    const { receiver } = setUp({ logger: { warn: refuse, error: refuse } });
    expect((await receiver.receive(await delivery('', { method: 'GET' }))).kind).toBe('rejected');
  });

  test('a logger that rejects leaves no unhandled rejection', async () => {
    const unhandled = vi.fn();
    process.on('unhandledRejection', unhandled);
    const refuse = () => Promise.reject(new Error('no disk'));
    const { receiver } = setUp({ logger: { warn: refuse, error: refuse } });
    expect((await receiver.receive(await delivery('', { method: 'GET' }))).kind).toBe('rejected');
    await new Promise(setImmediate);
    expect(unhandled).not.toHaveBeenCalled();
    process.off('unhandledRejection', unhandled);
  });

  test('pino takes the lines as it is', async () => {
    const written: string[] = [];
    const logger = pino({}, { write: (line: string) => void written.push(line) });
    const { receiver } = setUp({ logger });
    await receiver.receive(await delivery(anEvent(), { headers: { 'X-SERVICE-Signature': '0'.repeat(64) } }));
    expect(JSON.parse(written.join())).toMatchObject({
      level: 40,
      msg: expect.stringContaining('ERR_SIGNATURE_MISMATCH'),
    });
  });

  test("the request's logger takes the lines of its delivery, unless the receiver has one", async () => {
    const [own, framework] = [listen(), listen()];
    for (const options of [{}, { logger: own.logger }]) {
      const { receiver } = setUp(options);
      const request = await delivery('', { method: 'GET' });
      await receiver.receive({ ...request, logger: framework.logger });
    }
    expect(framework.lines).toHaveLength(1);
    expect(own.lines).toHaveLength(1);
  });

  test('the values of a payload that does not match its schema are in no line and in no cause', async () => {
    const { lines, logger } = listen();
    // As valibot and arktype do: an issue quotes the value.
    const schema = {
      '~standard': {
        validate: (value: unknown) => ({
          issues: [
            { message: `expected a number, got ${JSON.stringify(value)}`, path: ['amount'], input: value },
          ],
        }),
      },
    };
    const { receiver, outcomes } = setUp({ logger, payloads: { 'transfer.settled': schema } } as object);
    await receiver.receive(await delivery(anEvent()));
    expect(lines.join()).toContain('payload.amount');
    expect(lines.join()).not.toMatch(/planted|10\.50/);
    expect(inspect(outcomes[0]?.error, { depth: 9 })).not.toMatch(/planted|10\.50/);
  });

  test('the parameters that Drizzle quotes in its errors are in no line and not in the inbox', async () => {
    const { lines, logger } = listen();
    const inbox = memoryInbox();
    const quoting = Object.assign(
      new Error('Failed query: insert into ledger\nparams: planted payload', {
        cause: new Error('duplicate key'),
      }),
      { params: ['planted payload'] },
    );
    const { receiver } = setUp({
      logger,
      inbox,
      handlers: { 'transfer.settled': () => Promise.reject(quoting) },
    });
    const event = anEvent();
    await receiver.receive(await delivery(event));
    expect(lines.join()).toContain('duplicate key');
    expect(lines.join()).not.toContain('planted');
    expect((await inbox.find(event.id))?.lastError).toBe('ERR_HANDLER_FAILED: duplicate key');
  });
});

test('of an error of Prisma only the last line is logged and stored: the others quote the arguments', async () => {
  const { lines, logger } = listen();
  const inbox = memoryInbox();
  const quoting = Object.assign(
    new Error(
      'Invalid `prisma.ledger.create()` invocation:\n{ data: { memo: "planted payload" } }\nArgument `id` is missing.',
    ),
    { name: 'PrismaClientValidationError' },
  );
  const { receiver } = setUp({
    logger,
    inbox,
    handlers: { 'transfer.settled': () => Promise.reject(quoting) },
  });
  const event = anEvent();
  await receiver.receive(await delivery(event));
  expect(lines.join()).toContain('Argument `id` is missing.');
  expect(lines.join()).not.toContain('planted');
  expect((await inbox.find(event.id))?.lastError).toBe('ERR_HANDLER_FAILED: Argument `id` is missing.');
});

describe('an outcome', () => {
  test('an onOutcome that changes its outcome does not change the response', async () => {
    const { logger } = listen();
    const { receiver } = setUp({
      logger,
      handlers: { 'transfer.settled': () => Promise.reject(new Error('no')) },
      onOutcome: (outcome) => void Object.assign(outcome, { kind: 'handled' }),
    });
    const outcome = await receiver.receive(await delivery(anEvent()));
    expect(toWebhookResponse(outcome).status).toBe(500);
  });

  test('an onOutcome that changes the code of the error does not change the response', async () => {
    const { logger } = listen();
    const { receiver } = setUp({
      logger,
      handlers: { 'transfer.settled': () => Promise.reject(new Error('no')) },
      onOutcome: ({ error }) => void Object.assign(error ?? {}, { code: 'handled' }),
    });
    const outcome = await receiver.receive(await delivery(anEvent()));
    expect(toWebhookResponse(outcome).status).toBe(500);
  });

  test('an outcome says which secret matched, and how long the handler ran', async () => {
    const { receiver } = setUp({
      secret: ['whsec_new', secret],
      handlers: { 'transfer.settled': () => new Promise((resolve) => setTimeout(resolve, 20)) },
    });
    const outcome = await receiver.receive(await delivery(anEvent()));
    expect(outcome).toMatchObject({ kind: 'handled', secretIndex: 1 });
    expect(outcome.handlerMs).toBeGreaterThanOrEqual(19);
  });
});

describe('what is not verified', () => {
  test('a body that does not arrive within bodyTimeoutMs is answered 500, its reading is cancelled, and the connection closes', async () => {
    const { logger } = listen();
    const { receiver } = setUp({ bodyTimeoutMs: 5, logger });
    const cancelBody = vi.fn();
    const request = {
      ...(await delivery(anEvent())),
      body: () => new Promise<never>(() => undefined),
      cancelBody,
    };
    const outcome = await receiver.receive(request);
    expect(outcome).toMatchObject({ kind: 'failed', error: { code: 'ERR_BODY_TIMEOUT' } });
    expect(toWebhookResponse(outcome)).toMatchObject({ status: 500, headers: { connection: 'close' } });
    expect(cancelBody).toHaveBeenCalledOnce();
  });

  test('an error that cancelBody throws explains why the body did not arrive', async () => {
    const { logger } = listen();
    const { receiver } = setUp({ bodyTimeoutMs: 5, logger });
    const cancelBody = () => {
      throw new RequestError('ERR_BODY_UNAVAILABLE', 'A parser read it.');
    };
    const body = () => new Promise<never>(() => undefined);
    const outcome = await receiver.receive({ ...(await delivery(anEvent())), body, cancelBody });
    expect(outcome).toMatchObject({ kind: 'failed', error: { code: 'ERR_BODY_UNAVAILABLE' } });
  });

  test('close does not wait for bodies that still arrive, and refuses them when they have arrived', async () => {
    const { logger } = listen();
    const { receiver, ran } = setUp({ logger });
    const arrived = deferred();
    const request = await delivery(anEvent());
    const receiving = receiver.receive({
      ...request,
      body: async (maxBytes) => {
        await arrived.promise;
        return request.body(maxBytes);
      },
    });
    await receiver.close();
    arrived.resolve();
    expect(await receiving).toMatchObject({ kind: 'busy', error: { code: 'ERR_RECEIVER_CLOSED' } });
    expect(ran).toEqual([]);
  });

  test.each<[string, () => Promise<never>]>([
    ['promise', () => new Promise<never>(() => undefined)],
    // As of a promise library, or of another realm: no instance of Promise.
    ['thenable', () => Object.defineProperty({}, 'then', { value: () => undefined }) as never],
  ])(
    'a secret function whose %s does not settle within secretTimeoutMs makes the delivery unavailable',
    async (_name, give) => {
      const { logger } = listen();
      const { receiver } = setUp({
        secret: give,
        secretTimeoutMs: 5,
        logger,
      });
      const outcome = await receiver.receive(await delivery(anEvent()));
      expect(outcome).toMatchObject({ kind: 'unavailable', error: { code: 'ERR_SECRET_UNAVAILABLE' } });
      expect(toWebhookResponse(outcome).status).toBe(503);
    },
  );
});

describe('the text of an event', () => {
  const text =
    '{ "id": "evt_exact", "type": "mint.completed", "created_at": "2026-01-02T03:04:05Z", "payload": { "z": 1e999, "n": -0, "1": 12345678901234567890 } }';

  test('a parked event is stored as it arrived', async () => {
    const inbox = memoryInbox();
    await setUp({ inbox }).receiver.receive(await delivery(text));
    const types = ['mint.completed'];
    expect(await inbox.takeDue({ limit: 1, visibilityTimeoutMs: 1, types })).toMatchObject([{ json: text }]);
  });

  test('an event that is enqueued is recorded and passed on as it arrived, also by redrive', async () => {
    const known = text.replace('mint.completed', 'transfer.settled');
    const inbox = { ...memoryInbox(), durable: true };
    const enqueued: unknown[] = [];
    const queue: Queue = { enqueue: async (_event, options) => void enqueued.push(options?.json) };
    const { receiver } = setUp({ inbox, queue, leaseMs: 2, handlerTimeoutMs: 1 });
    expect((await receiver.receive(await delivery(known))).kind).toBe('queued');
    await expect.poll(async () => (await receiver.redrive()).queued).toBeGreaterThan(0);
    expect(new Set(enqueued)).toEqual(new Set([known]));
  });
});
