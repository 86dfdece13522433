import { type ClientOptions, createClient } from 'stablehooks/client';
import { createSandbox, type Faults } from 'stablehooks-kit/sandbox';
import { afterEach, describe, expect, test } from 'vitest';
import { describedFetch } from '../openapi/check.js';

const input = {
  agentId: 'agent-7',
  label: 'travel',
  chain: 'solana',
  limits: { perTx: '10.50', daily: '100' },
  allowlist: ['So11111111111111111111111111111111111111112'],
} as const;

let close: () => Promise<void> = async () => undefined;
afterEach(() => close());

async function setUp({
  faults,
  ...options
}: Partial<ClientOptions> & { readonly faults?: Partial<Faults> } = {}) {
  const sandbox = createSandbox(faults === undefined ? {} : { faults });
  const { url: baseUrl } = await sandbox.listen(0);
  close = () => sandbox.close();
  const retried: string[] = [];
  const client = createClient({
    baseUrl,
    token: sandbox.token,
    baseWaitMs: 1,
    maxWaitMs: 5,
    onRetry: ({ error }) => void retried.push(error.code),
    // Half of a response is on purpose.
    ...(faults?.apiMalformed ? {} : { fetch: describedFetch() }),
    ...options,
  });
  return { sandbox, client, retried };
}

describe('against the sandbox', () => {
  test('the client creates a wallet and changes its limits', async () => {
    const { client, sandbox } = await setUp();
    const wallet = await client.wallets.create(input);
    expect(wallet).toMatchObject({ agentId: 'agent-7', chain: 'solana', limits: input.limits });
    expect(wallet.allowlist).toEqual(input.allowlist);
    const limits = { perTx: '1', daily: '2' };
    expect(await client.wallets.updateLimits(wallet.id, { limits })).toMatchObject({ id: wallet.id, limits });
    expect(sandbox.wallets.get(wallet.id).limits).toEqual(limits);
  });

  test('the client lists events of known and unknown types by type and limit, 50 by default', async () => {
    const { client, sandbox } = await setUp();
    for (let count = 0; count < 60; count++) sandbox.accept();
    sandbox.emit('mint.completed', { amount: '1.10' });
    expect((await client.events.list()).length).toBe(50);
    expect((await client.events.list({ limit: 100 })).length).toBe(61);
    const [newer, ...rest] = await client.events.list({ type: 'mint.completed' });
    expect(newer).toMatchObject({ type: 'mint.completed', payload: { amount: '1.10' } });
    expect(rest).toEqual([]);
  });
});

describe('a request that the service refuses', () => {
  const status = (code: number) => ({ code: 'ERR_API_STATUS', status: code });

  test('a wrong token is ERR_API_STATUS 401 and is not retried', async () => {
    const { client, retried } = await setUp({ token: 'guessed' });
    await expect(client.events.list()).rejects.toMatchObject(status(401));
    expect(retried).toEqual([]);
  });

  test('an unknown wallet is ERR_API_STATUS 404', async () => {
    const { client } = await setUp();
    await expect(client.wallets.updateLimits('w_unknown', { limits: input.limits })).rejects.toMatchObject(
      status(404),
    );
  });

  test('a negative amount is ERR_API_STATUS 400 and no wallet is created', async () => {
    const { client, sandbox } = await setUp();
    const create = client.wallets.create({ ...input, limits: { perTx: '-1', daily: '100' } });
    await expect(create).rejects.toMatchObject({ ...status(400), body: expect.stringContaining('perTx') });
    expect(sandbox.wallets.list()).toEqual([]);
  });
});

describe('a service with faults', () => {
  const next = (times: number) => ({ next: times });

  test.each<[string, Partial<Faults>, string]>([
    ['429', { apiTooManyRequests: next(2), apiRetryAfterMs: 1 }, 'ERR_API_STATUS'],
    ['500', { apiServerError: next(2) }, 'ERR_API_STATUS'],
  ])('%s twice is retried twice, and the list is complete', async (_name, faults, code) => {
    const { client, sandbox, retried } = await setUp({ faults });
    sandbox.accept();
    expect((await client.events.list()).length).toBe(1);
    expect(retried).toEqual([code, code]);
  });

  test('429 each time is ERR_API_STATUS with the wait that the service asks for', async () => {
    const { client, retried } = await setUp({
      faults: { apiTooManyRequests: 1, apiRetryAfterMs: 2_000 },
      retries: 1,
    });
    await expect(client.events.list()).rejects.toMatchObject({ status: 429, retryAfterMs: 2_000 });
    expect(retried.length).toBe(1);
  });

  test('malformed JSON is ERR_API_RESPONSE', async () => {
    const { client, sandbox } = await setUp({ faults: { apiMalformed: 1 } });
    sandbox.accept();
    await expect(client.events.list()).rejects.toMatchObject({ code: 'ERR_API_RESPONSE' });
    await expect(client.wallets.create(input)).rejects.toMatchObject({ code: 'ERR_API_RESPONSE' });
  });
});
