import { createReceiver, EVENT_TYPES } from 'stablehooks';
import { toFetchHandler } from 'stablehooks/fetch';
import { exampleEvent, examplePayloads, signedRequest } from 'stablehooks/testing';
import { createSandbox } from 'stablehooks-kit/sandbox';
import { describe, expect, test } from 'vitest';
import * as z from 'zod/mini';

/** The schemas accept keys that they do not list; here a key of another name must fail. */
const strict = (type: (typeof EVENT_TYPES)[number]) => z.strictObject(examplePayloads[type].shape);

test('there is one example payload schema for each event type', () => {
  expect(Object.keys(examplePayloads)).toEqual([...EVENT_TYPES]);
});

test('a receiver with examplePayloads handles a signed exampleEvent with a typed payload', async () => {
  const secret = 'whsec';
  const settled: string[] = [];
  const receiver = createReceiver({
    secret,
    payloads: examplePayloads,
    handlers: {
      'transfer.settled': ({ payload }) => void settled.push(payload.tx_hash),
    },
  });
  const signed = await signedRequest(exampleEvent('transfer.settled'), { secret });
  expect((await toFetchHandler(receiver)(signed.toRequest())).status).toBe(200);
  expect(settled).toEqual([exampleEvent('transfer.settled').payload['tx_hash']]);
});

describe.each(EVENT_TYPES)('%s', (type) => {
  test('the payload of exampleEvent has exactly the keys of its schema', () => {
    expect(strict(type).safeParse(exampleEvent(type).payload)).toMatchObject({ success: true });
  });

  test('the payload that the sandbox emits by default has exactly the keys of its schema', () => {
    const sandbox = createSandbox({ seed: 1 });
    for (let n = 0; n < 20; n++) {
      const { payload } = sandbox.emit(type);
      expect(strict(type).safeParse(payload)).toMatchObject({ success: true, data: payload });
    }
  });

  test('a camelCase key fails in the strict schema', () => {
    const payload = { ...exampleEvent(type).payload, txHash: '0x00' };
    expect(strict(type).safeParse(payload).success).toBe(false);
  });
});

test('the events of every movement in the sandbox have exactly the keys of their schemas', () => {
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
    expect(strict(known).safeParse(payload)).toMatchObject({ success: true, data: payload });
  }
  expect(events.filter(({ payload }) => payload['wallet_id'] === id)).toHaveLength(3);
});

test('exampleEvent refuses a misspelt type, and takes one of a newer release with a payload', () => {
  const newer = 'mint.completed' as 'transfer.settled';
  const misspelt = 'transfer.setled' as 'transfer.settled';
  const invalid = expect.objectContaining({ code: 'ERR_CONFIG_INVALID' });
  expect(() => exampleEvent(misspelt)).toThrow(invalid);
  expect(() => exampleEvent(misspelt)).toThrow(
    /unknown type `transfer\.setled`\. The types are .*transfer\.settled/,
  );
  expect(() => exampleEvent(newer)).toThrow(/Pass a `payload` for another one\./);
  expect(exampleEvent(newer, { payload: { amount: '1' } })).toMatchObject({
    type: 'mint.completed',
    payload: { amount: '1' },
  });
});
