/** The recipes of docs/secrets.md and docs/serverless.md. */
import { createReceiver, type Handler, memoryInbox, sign } from 'stablehooks';
import { exampleEvent, signedRequest } from 'stablehooks/testing';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { toSqsHandler } from '../examples/sqs.js';
import { tenantSecrets } from '../examples/tenant-secrets.js';
import { blocksOf, squeeze } from './project/markdown.js';
import { textOf } from './project/source.js';
import { anEvent, bytesOf, deferred, delivery } from './receiver/delivery.js';

const SILENT = { warn: () => undefined, error: () => undefined };

test.each([
  ['secrets', 'tenant-secrets'],
  ['serverless', 'sqs'],
])('docs/%s.md shows examples/%s.ts', (page, example) => {
  expect(blocksOf(textOf(`docs/${page}.md`), 'ts').map(squeeze)).toContain(
    squeeze(textOf(`examples/${example}.ts`)),
  );
});

function silenceConsole() {
  const error = vi.spyOn(console, 'error').mockImplementation(() => undefined);
  onTestFinished(() => error.mockRestore());
  return error;
}

describe('secrets of tenants from a secret manager', () => {
  /** A manager whose secrets the test changes; `undefined` is an outage. */
  function setUp(secrets: Record<string, string | undefined>) {
    let ms = 1_000;
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => ms);
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => {
      vi.useRealTimers();
      clock.mockRestore();
    });
    const advance = (by: number) => {
      ms += by;
      vi.advanceTimersByTime(by);
    };
    const asked: string[] = [];
    const fetchSecrets = async (tenant: string, signal: AbortSignal) => {
      asked.push(tenant);
      signal.throwIfAborted();
      const secret = secrets[tenant];
      if (secret === undefined) throw new Error('manager down');
      return [secret];
    };
    const receiver = createReceiver({
      secret: tenantSecrets(['acme', 'globex'], fetchSecrets),
      handlers: { 'transfer.settled': () => undefined },
      logger: SILENT,
    });
    const deliver = async (url: string, secret: string) => {
      const event = anEvent();
      const signature = await sign(bytesOf(event), { secret });
      const request = await delivery(event, { headers: { 'X-SERVICE-Signature': signature } });
      const { kind, error } = await receiver.receive({ ...request, url });
      return error?.code ?? kind;
    };
    return { advance, asked, deliver };
  }

  test('are fetched once a minute, by one call for all deliveries that wait, each for its tenant', async () => {
    const secrets = { acme: 's1', globex: 's2' };
    const { advance, asked, deliver } = setUp(secrets);
    const both = [deliver('/hooks/acme', 's1'), deliver('/hooks/acme', 's1'), deliver('/hooks/globex', 's2')];
    expect(await Promise.all(both)).toEqual(['handled', 'handled', 'handled']);
    expect(await deliver('/hooks/globex', 's1')).toBe('ERR_SIGNATURE_MISMATCH');
    expect(asked).toEqual(['acme', 'globex']);

    secrets.acme = 's3';
    expect(await deliver('/hooks/acme', 's3')).toBe('ERR_SIGNATURE_MISMATCH');
    advance(60_001);
    expect(await deliver('/hooks/acme', 's3')).toBe('handled');
    expect(asked).toEqual(['acme', 'globex', 'acme']);
  });

  test('stay in use while the manager is down or hangs, and an outage is logged; a tenant that has none yet gets 503', async () => {
    const error = silenceConsole();
    const secrets: Record<string, string | undefined> = { acme: 's1' };
    const { advance, deliver } = setUp(secrets);
    expect(await deliver('/hooks/acme', 's1')).toBe('handled');
    secrets['acme'] = undefined;
    for (let hour = 0; hour < 2; hour++) {
      advance(3_600_000);
      expect(await deliver('/hooks/acme', 's1')).toBe('handled');
    }
    expect(error).toHaveBeenCalledTimes(2);
    secrets['acme'] = 's1';
    const timeout = vi.spyOn(AbortSignal, 'timeout').mockReturnValueOnce(AbortSignal.abort());
    expect(await deliver('/hooks/acme', 's1')).toBe('handled');
    expect(timeout).toHaveBeenCalledWith(5_000);
    expect(error).toHaveBeenCalledTimes(3);
    timeout.mockRestore();

    expect(await deliver('/hooks/globex', 's2')).toBe('ERR_SECRET_UNAVAILABLE');
    secrets['globex'] = 's2';
    expect(await deliver('/hooks/globex', 's2')).toBe('handled');
  });

  test('an unknown tenant is refused without a call', async () => {
    const { asked, deliver } = setUp({ acme: 's1' });
    for (const path of ['/hooks/b', '/hooks/acme/', '/hooks/', '/acme', 'acme']) {
      expect(await deliver(path, 's1')).toBe('ERR_SECRET_UNKNOWN');
    }
    expect(asked).toEqual([]);
  });
});

describe('a batch of SQS messages', () => {
  const secret = 'whsec_sqs';

  function setUp(handler: Handler<'transfer.settled'> = () => undefined, answer?: 'recorded') {
    const inbox = { ...memoryInbox(), durable: true };
    const receiver = createReceiver({
      ...{ secret, inbox, answer, logger: SILENT },
      handlers: { 'transfer.settled': handler },
    });
    return toSqsHandler(receiver);
  }

  /** A message as the template of docs/serverless.md makes it. */
  async function messageOf(messageId: string, body: Uint8Array, change: object = {}) {
    const { headers } = await signedRequest(body, { secret });
    const request = { httpMethod: 'POST', headers, isBase64Encoded: true, body: base64Of(body), ...change };
    return { messageId, body: JSON.stringify(request) };
  }

  const base64Of = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64');
  const failed = (...ids: string[]) => ({
    batchItemFailures: ids.map((itemIdentifier) => ({ itemIdentifier })),
  });

  test('genuine deliveries are handled once, with their exact bytes, in base64 or as text', async () => {
    const ran: (string | undefined)[] = [];
    const handler = setUp((_event, { json }) => void ran.push(json));
    const texts = ['Zürich 東京 💶', 'plain'].map(
      (memo) => `${JSON.stringify(exampleEvent('transfer.settled', { payload: { memo } }), null, 2)}\n`,
    );
    const [first, second] = texts.map(bytesOf);
    const plain = { isBase64Encoded: false, body: texts[1] };
    const Records = [
      await messageOf('1', first ?? bytesOf('')),
      await messageOf('2', second ?? bytesOf(''), plain),
    ];

    expect(await handler({ Records })).toEqual(failed());
    expect(await handler({ Records })).toEqual(failed());
    expect(ran.sort()).toEqual(texts.sort());
  });

  test('what is forged, fails or is no delivery is reported as failed, alone', async () => {
    const error = silenceConsole();
    const failing = exampleEvent('transfer.settled');
    const handler = setUp(({ id }) => {
      if (id === failing.id) throw new Error('no');
    });
    const genuine = bytesOf(exampleEvent('transfer.settled'));
    const forged = { body: base64Of(bytesOf(exampleEvent('transfer.settled'))) };
    const Records = [
      await messageOf('forged', genuine, forged),
      await messageOf('genuine', genuine),
      await messageOf('failing', bytesOf(failing)),
      { messageId: 'text', body: 'no JSON' },
      { messageId: 'other', body: '{}' },
    ];

    const { batchItemFailures } = await handler({ Records });
    expect(batchItemFailures.map(({ itemIdentifier }) => itemIdentifier).sort()).toEqual([
      'failing',
      'forged',
      'other',
      'text',
    ]);
    expect(error).toHaveBeenCalledTimes(2);
  });

  test("under answer: 'recorded' the batch ends when the handlers have ended, and the inbox retries one that fails", async () => {
    const started = deferred();
    const gate = deferred();
    let ended = false;
    const handler = setUp(async () => {
      started.resolve();
      await gate.promise;
      ended = true;
      throw new Error('no');
    }, 'recorded');
    const running = handler({ Records: [await messageOf('1', bytesOf(exampleEvent('transfer.settled')))] });
    await started.promise;
    gate.resolve();
    expect(await running).toEqual(failed());
    expect(ended).toBe(true);
  });
});
