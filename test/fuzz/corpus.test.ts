/** What is known to be valid, invalid or odd, with its result. */
import { createHmac } from 'node:crypto';
import {
  createReceiver,
  SIGNATURE_HEADER,
  toWebhookResponse,
  type UnknownEvent,
  verifySignature,
} from 'stablehooks';
import { describe, expect, test } from 'vitest';
import hmac from './corpus/hmac-sha256.json' with { type: 'json' };
import { JSON_BODIES } from './corpus/json-bodies.js';
import { OWN_BODIES, OWN_SIGNATURES } from './corpus/own.js';
import { judgeEvent, judgeSignature, sameJson } from './expected.js';

const secret = 'whsec_corpus';

async function deliver(body: Uint8Array, signature?: string) {
  const handled: UnknownEvent[] = [];
  const handler = (event: UnknownEvent) => void handled.push(event);
  const receiver = createReceiver({
    secret,
    handlers: { 'transfer.settled': handler, 'redeem.failed': handler },
    logger: { warn: () => undefined, error: () => undefined },
  });
  const given = signature ?? createHmac('sha256', secret).update(body).digest('hex');
  const outcome = await receiver.receive({
    method: 'POST',
    header: (name) => (name === SIGNATURE_HEADER ? given : null),
    body: async () => body,
  });
  return { code: outcome.error?.code, handled, status: toWebhookResponse(outcome).status };
}

describe('the vectors of Wycheproof for HMAC-SHA256', () => {
  const bytes = (hex: string) => new Uint8Array(Buffer.from(hex, 'hex'));
  const whole = hmac.vectors.filter(({ tag }) => tag.length === 64);
  const truncated = hmac.vectors.filter(({ tag }) => tag.length === 32);

  test('are 174, and 87 of them have a whole tag', () => {
    expect([hmac.vectors.length, whole.length, truncated.length]).toEqual([174, 87, 87]);
    expect(hmac.vectors.filter(({ valid }) => valid).length).toBe(66);
  });

  test.each(['hex', 'base64', 'base64url'] as const)(
    'in %s, verifySignature resolves for a whole tag that is valid, and for no other tag',
    async (format) => {
      for (const { key, message, tag, valid, id } of hmac.vectors) {
        const signature = Buffer.from(tag, 'hex').toString(format);
        const verified = await verifySignature(bytes(message), signature, { secret: bytes(key) }).then(
          ({ secretIndex }) => secretIndex,
          (error: { readonly code: string }) => error.code,
        );
        const wrong = tag.length === 32 ? 'malformed' : 'mismatch';
        const expected = valid && tag.length === 64 ? 0 : wrong;
        const own = { secrets: [bytes(key)], body: bytes(message) };
        expect([id, judgeSignature(signature, { encoding: undefined, prefix: '' }, own)]).toEqual([
          id,
          expected,
        ]);
        const code = expected === 0 ? 0 : `ERR_SIGNATURE_${wrong.toUpperCase()}`;
        expect([id, verified]).toEqual([id, code]);
      }
    },
  );
});

describe('the cases of JSONTestSuite in a signed delivery', () => {
  const inPayload = (bytes: Buffer) => {
    const fields = '"id":"evt_suite","type":"transfer.settled","created_at":"2026-07-14T09:30:00Z"';
    return Buffer.concat([Buffer.from(`{${fields},"payload":{"value":`), bytes, Buffer.from('}}')]);
  };
  const ofKind = (kind: 'y_' | 'n_' | 'i_') => JSON_BODIES.filter(({ name }) => name.startsWith(kind));

  test('are 318: 95 that are JSON, 188 that are none, and 35 that parsers decide about', () => {
    expect([ofKind('y_').length, ofKind('n_').length, ofKind('i_').length]).toEqual([95, 188, 35]);
  });

  test('have bytes that decode to the texts of the package', () => {
    for (const { name, bytes, text } of JSON_BODIES) expect([name, bytes.toString()]).toEqual([name, text]);
  });

  test('that are JSON reach the handler as JSON.parse gives them, in the payload of an event', async () => {
    for (const { name, bytes, text } of ofKind('y_')) {
      const { status, handled } = await deliver(inPayload(bytes));
      expect([name, status]).toEqual([name, 200]);
      expect([name, sameJson(handled[0]?.payload['value'], JSON.parse(text))]).toEqual([name, true]);
    }
  });

  test('that are no JSON are refused with 400 in the payload of an event', async () => {
    for (const { name, bytes } of ofKind('n_')) {
      const { status, handled, code } = await deliver(inPayload(bytes));
      expect([name, status, code, handled.length]).toEqual([name, 400, 'ERR_EVENT_MALFORMED', 0]);
    }
  });

  test('that parsers decide about are handled as JSON.parse gives them or refused with 400', async () => {
    for (const { name, bytes } of ofKind('i_')) {
      const { status, handled } = await deliver(inPayload(bytes));
      const expected = judgeEvent(inPayload(bytes));
      expect([name, status]).toEqual([name, expected === undefined ? 400 : 200]);
      expect([name, sameJson(handled[0], expected)]).toEqual([name, true]);
    }
  });

  test('are no events: alone, each is refused with 400, and one without bytes with 500', async () => {
    for (const { name, bytes } of JSON_BODIES) {
      const { status, handled, code } = await deliver(bytes);
      const expected = bytes.length === 0 ? [500, 'ERR_BODY_UNAVAILABLE'] : [400, 'ERR_EVENT_MALFORMED'];
      expect([name, status, code, handled.length]).toEqual([name, ...expected, 0]);
    }
  });
});

describe('inputs of our own', () => {
  test.each(OWN_BODIES.map(({ text, isEvent }) => ({ text, isEvent, start: text.slice(0, 60) })))(
    'the signed body $start… is an event: $isEvent',
    async ({ text, isEvent }) => {
      const { status, handled } = await deliver(Buffer.from(text));
      expect([status, handled.length]).toEqual(isEvent ? [200, 1] : [400, 0]);
      const expected = judgeEvent(Buffer.from(text));
      expect([expected !== undefined, sameJson(handled[0], expected)]).toEqual([isEvent, true]);
    },
  );

  test('no odd value of the signature header is accepted', async () => {
    for (const signature of OWN_SIGNATURES) {
      const { status, handled } = await deliver(Buffer.from(OWN_BODIES[0]?.text ?? ''), signature);
      expect([signature.slice(0, 70), status, handled.length]).toEqual([signature.slice(0, 70), 401, 0]);
    }
  });
});
