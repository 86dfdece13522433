/** What is known to be valid, invalid or odd, with its result. */
import { createHmac } from 'node:crypto';
import {
  createReceiver,
  type Outcome,
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
  const outcome: Outcome = await receiver.receive({
    method: 'POST',
    header: (name) => (name === SIGNATURE_HEADER ? given : null),
    body: async () => body,
  });
  return { outcome, handled, status: toWebhookResponse(outcome).status };
}

describe('the vectors of Wycheproof for HMAC-SHA256', () => {
  const bytes = (hex: string) => new Uint8Array(Buffer.from(hex, 'hex'));
  const FORMATS = ['hex', 'base64', 'base64url'] as const;

  test('are 174, and 87 of them have a whole tag', () => {
    expect(hmac.vectors.length).toBe(174);
    expect(hmac.vectors.filter(({ tag }) => tag.length === 64).length).toBe(87);
    expect(hmac.vectors.filter(({ valid }) => valid).length).toBe(66);
  });

  test.each(FORMATS)(
    'with a whole tag in %s, verifySignature resolves for those that are valid, and for no other',
    async (format) => {
      for (const { key, message, tag, valid, id } of hmac.vectors.filter(({ tag }) => tag.length === 64)) {
        const signature = Buffer.from(tag, 'hex').toString(format);
        const verified = await verifySignature(bytes(message), signature, { secret: bytes(key) }).then(
          ({ secretIndex }) => secretIndex,
          (error: { readonly code: string }) => error.code,
        );
        expect([id, verified]).toEqual([id, valid ? 0 : 'ERR_SIGNATURE_MISMATCH']);
        const judged = judgeSignature(
          signature,
          { encoding: undefined, prefix: '' },
          { secrets: [bytes(key)], body: bytes(message) },
        );
        expect([id, judged]).toEqual([id, valid ? 0 : 'mismatch']);
      }
    },
  );

  test.each(FORMATS)(
    'with a truncated tag in %s, verifySignature refuses all, also those that are valid',
    async (format) => {
      const truncated = hmac.vectors.filter(({ tag }) => tag.length === 32);
      expect(truncated.length).toBe(87);
      for (const { key, message, tag } of truncated) {
        const signature = Buffer.from(tag, 'hex').toString(format);
        await expect(
          verifySignature(bytes(message), signature, { secret: bytes(key) }),
        ).rejects.toMatchObject({
          code: 'ERR_SIGNATURE_MALFORMED',
        });
      }
    },
  );
});

describe('the cases of JSONTestSuite in a signed delivery', () => {
  const inPayload = (bytes: Buffer) =>
    Buffer.concat([
      Buffer.from(
        '{"id":"evt_suite","type":"transfer.settled","created_at":"2026-07-14T09:30:00Z","payload":{"value":',
      ),
      bytes,
      Buffer.from('}}'),
    ]);
  const ofKind = (kind: 'y_' | 'n_' | 'i_') => JSON_BODIES.filter(({ name }) => name.startsWith(kind));

  test('are 318: 95 that are JSON, 188 that are none, and 35 that parsers decide about', () => {
    expect([ofKind('y_').length, ofKind('n_').length, ofKind('i_').length]).toEqual([95, 188, 35]);
  });

  test('have bytes that decode to the texts of the package', () => {
    for (const { name, bytes, text } of JSON_BODIES) expect([name, bytes.toString()]).toEqual([name, text]);
  });

  test('that are JSON reach the handler as JSON.parse gives them, in the payload of an event', async () => {
    for (const { name, bytes, text } of ofKind('y_')) {
      const { outcome, handled } = await deliver(inPayload(bytes));
      expect([name, outcome.kind]).toEqual([name, 'handled']);
      expect([name, sameJson(handled[0]?.payload['value'], JSON.parse(text))]).toEqual([name, true]);
    }
  });

  test('that are JSON but no event are refused with 400', async () => {
    for (const { name, bytes } of ofKind('y_')) {
      const { status, handled } = await deliver(bytes);
      expect([name, status, handled.length]).toEqual([name, 400, 0]);
    }
  });

  test('that are no JSON are refused with 400, alone and in the payload of an event', async () => {
    for (const { name, bytes } of ofKind('n_')) {
      for (const body of [bytes, inPayload(bytes)]) {
        const { status, handled, outcome } = await deliver(body);
        expect([name, status, outcome.error?.code, handled.length]).toEqual([
          name,
          400,
          'ERR_EVENT_MALFORMED',
          0,
        ]);
      }
    }
  });

  test('that parsers decide about are handled as JSON.parse gives them or refused with 400', async () => {
    for (const { name, bytes } of ofKind('i_')) {
      const body = inPayload(bytes);
      const { status, handled } = await deliver(body);
      const expected = judgeEvent(body);
      expect([name, status]).toEqual([name, expected === undefined ? 400 : 200]);
      if (expected !== undefined) expect(sameJson(handled[0], expected)).toBe(true);
      expect((await deliver(bytes)).status).toBe(400);
    }
  });
});

describe('inputs of our own', () => {
  test.each(OWN_BODIES.map(({ text, isEvent }) => ({ text, isEvent, start: text.slice(0, 60) })))(
    'the signed body $start… is an event: $isEvent',
    async ({ text, isEvent }) => {
      const { status, handled } = await deliver(Buffer.from(text));
      expect([status, handled.length]).toEqual(isEvent ? [200, 1] : [400, 0]);
      expect(judgeEvent(Buffer.from(text)) !== undefined).toBe(isEvent);
      if (isEvent) expect(sameJson(handled[0], judgeEvent(Buffer.from(text)))).toBe(true);
    },
  );

  test('no odd value of the signature header is accepted', async () => {
    for (const signature of OWN_SIGNATURES) {
      const { status, handled } = await deliver(Buffer.from(OWN_BODIES[0]?.text ?? ''), signature);
      expect([signature.slice(0, 70), status, handled.length]).toEqual([signature.slice(0, 70), 401, 0]);
    }
  });
});
