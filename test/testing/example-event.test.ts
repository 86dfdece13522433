import { runInNewContext } from 'node:vm';
import { createReceiver, EVENT_TYPES } from 'stablehooks';
import { toFetchHandler } from 'stablehooks/fetch';
import { exampleEvent, signedRequest } from 'stablehooks/testing';
import { createSandbox } from 'stablehooks-kit/sandbox';
import { describe, expect, test } from 'vitest';
import * as z from 'zod/mini';

const amount = z.string().check(z.regex(/^\d+(\.\d+)?$/));
const time = z.iso.datetime();
const movement = { amount, currency: z.string(), chain: z.string(), wallet_id: z.optional(z.string()) };
const route = { ...movement, from: z.string(), to: z.string() };
const redemption = { redeem_id: z.string(), ...movement, bank: z.string() };

/** The keys of the examples. */
const SCHEMAS = {
  'accept.confirmed': z.strictObject({
    accept_id: z.string(),
    ...route,
    tx_hash: z.string(),
    confirmed_at: time,
  }),
  'transfer.settled': z.strictObject({
    transfer_id: z.string(),
    ...route,
    tx_hash: z.string(),
    settled_at: time,
  }),
  'transfer.failed': z.strictObject({
    transfer_id: z.string(),
    ...route,
    reason: z.enum(['compliance', 'routing', 'submission']),
    failed_at: time,
  }),
  'redeem.completed': z.strictObject({ ...redemption, completed_at: time }),
  'redeem.failed': z.strictObject({
    ...redemption,
    reason: z.enum(['bank', 'compliance']),
    failed_at: time,
  }),
};

test('a receiver handles a signed exampleEvent', async () => {
  const secret = 'whsec';
  const settled: unknown[] = [];
  const receiver = createReceiver({
    secret,
    handlers: { 'transfer.settled': ({ payload }) => settled.push(payload['tx_hash']) },
  });
  const signed = await signedRequest(exampleEvent('transfer.settled'), { secret });
  expect((await toFetchHandler(receiver)(signed.toRequest())).status).toBe(200);
  expect(settled).toEqual([exampleEvent('transfer.settled').payload['tx_hash']]);
});

describe.each(EVENT_TYPES)('%s', (type) => {
  test('the payload of exampleEvent has exactly the keys of its type', () => {
    expect(SCHEMAS[type].safeParse(exampleEvent(type).payload)).toMatchObject({ success: true });
  });

  test('the payload that the sandbox emits by default has exactly the keys of its type', () => {
    const sandbox = createSandbox({ seed: 1 });
    for (let n = 0; n < 20; n++) {
      const { payload } = sandbox.emit(type);
      expect(SCHEMAS[type].safeParse(payload)).toMatchObject({ success: true, data: payload });
    }
  });
});

test('the events of every movement in the sandbox have exactly the keys of the examples', () => {
  const sandbox = createSandbox({ seed: 1 });
  const { id } = sandbox.wallets.create({
    agentId: 'agent',
    chain: 'solana',
    limits: { perTx: '10', daily: '10' },
    allowlist: ['shop'],
  });
  sandbox.accept();
  sandbox.accept({ walletId: id });
  sandbox.transfer();
  sandbox.transfer({ failsWith: 'routing' });
  sandbox.send(id, { amount: '1', to: 'shop' });
  sandbox.send(id, { amount: '1', to: 'shop', failsWith: 'submission' });
  sandbox.redeem({ failsWith: 'compliance' });
  sandbox.returnRedemption(sandbox.redeem().id);
  const events = sandbox.events();
  expect(events).toHaveLength(9);
  expect(new Set(events.map(({ type }) => type))).toEqual(new Set(EVENT_TYPES));
  for (const { type, payload } of events) {
    const known = EVENT_TYPES.find((one) => one === type) ?? 'accept.confirmed';
    expect(SCHEMAS[known].safeParse(payload)).toMatchObject({ success: true, data: payload });
  }
  expect(events.filter(({ payload }) => payload['wallet_id'] === id)).toHaveLength(3);
});

test('signedRequest sends bytes of another realm unchanged', async () => {
  const bytes: Uint8Array = runInNewContext('new Uint8Array([123, 125])');
  expect(bytes).not.toBeInstanceOf(Uint8Array);
  expect(String((await signedRequest(bytes, { secret: 'secret' })).body)).toBe('{}');
});
