import { EVENT_TYPES, type EventType, type UnknownEvent, type WebhookEvent } from 'stablehooks';
import { envelopeSchema, limitsSchema, walletSchema, webhookEventSchema } from 'stablehooks/zod';
import { describe, expect, expectTypeOf, test } from 'vitest';
import * as classic from 'zod';
import * as mini from 'zod/mini';

const EVENT = {
  id: 'evt_1',
  type: 'transfer.settled',
  created_at: '2026-07-14T09:30:00.000Z',
  payload: { amount: '10.50' },
};
const WALLET = {
  id: 'w_1',
  agentId: 'agent',
  address: '0xAbCd',
  chain: 'base',
  balance: '0.10',
  limits: { perTx: '10.50', daily: '100' },
  allowlist: ['0xEf'],
};

/** The paths that a schema finds wrong, or none. */
function wrongPaths(schema: mini.core.$ZodType, value: unknown): readonly string[] {
  const issues = mini.safeParse(schema, value).error?.issues ?? [];
  return [...new Set(issues.map(({ path }) => path.join('.')))];
}

describe('envelopeSchema', () => {
  test('an event of an unknown type is accepted, and keys beyond the envelope are kept', () => {
    const event = { ...EVENT, type: 'wallet.frozen', delivered: true, region: 'eu' };
    expect(envelopeSchema.parse(event)).toEqual(event);
  });

  test('the parsed value is an UnknownEvent', () => {
    expectTypeOf<mini.infer<typeof envelopeSchema>>().toExtend<UnknownEvent>();
  });

  test('it can be written as JSON Schema', () => {
    expect(mini.toJSONSchema(envelopeSchema)).toMatchObject({
      required: ['id', 'type', 'created_at', 'payload'],
      properties: { id: { maxLength: 512 }, created_at: { format: 'date-time' } },
    });
  });
});

describe('webhookEventSchema', () => {
  test.each(EVENT_TYPES)('an event of type %s is accepted and its extra keys are kept', (type) => {
    const event = { ...EVENT, type, region: 'eu' };
    expect(webhookEventSchema().parse(event)).toEqual(event);
  });

  test('an event of an unknown type is refused at `type`', () => {
    expect(wrongPaths(webhookEventSchema(), { ...EVENT, type: 'wallet.frozen' })).toEqual(['type']);
  });

  test('the envelope of an event of a known type is checked', () => {
    expect(wrongPaths(webhookEventSchema(), { ...EVENT, id: '', created_at: 'today', payload: [] })).toEqual([
      'id',
      'created_at',
      'payload',
    ]);
  });

  test('a payload schema checks and transforms the payload of its type only', () => {
    const schema = webhookEventSchema({
      'transfer.settled': classic.object({ amount: classic.string().transform(Number) }),
      'redeem.failed': undefined,
    });
    expect(schema.parse(EVENT).payload).toEqual({ amount: 10.5 });
    expect(wrongPaths(schema, { ...EVENT, payload: { amount: 1 } })).toEqual(['payload.amount']);
    for (const type of ['transfer.failed', 'redeem.failed']) {
      const other = { ...EVENT, type, payload: { amount: 1 } };
      expect(schema.parse(other)).toEqual(other);
    }
  });

  test('`type` narrows the parsed event to the payload of its schema', () => {
    const schema = webhookEventSchema({
      'transfer.settled': classic.object({ amount: classic.string() }),
      'redeem.completed': mini.object({ bank_reference: mini.string() }),
    });
    const event: mini.infer<typeof schema> = schema.parse(EVENT);
    expectTypeOf(event.type).toEqualTypeOf<EventType>();
    if (event.type === 'transfer.settled') {
      expectTypeOf(event.payload).toEqualTypeOf<{ amount: string }>();
    } else if (event.type === 'redeem.completed') {
      expectTypeOf(event.payload).toEqualTypeOf<{ bank_reference: string }>();
    } else {
      expectTypeOf(event.type).toEqualTypeOf<'accept.confirmed' | 'transfer.failed' | 'redeem.failed'>();
      expectTypeOf(event.payload).toEqualTypeOf<Record<string, unknown>>();
    }
  });

  test('without payload schemas, `type` narrows the parsed event and the event is a WebhookEvent', () => {
    const schema = webhookEventSchema();
    expectTypeOf<mini.infer<typeof schema>>().toExtend<WebhookEvent>();
    const event: classic.infer<typeof schema> = schema.parse(EVENT);
    if (event.type === 'transfer.settled') expectTypeOf(event.type).toEqualTypeOf<'transfer.settled'>();
    expectTypeOf(event.payload).toEqualTypeOf<Record<string, unknown>>();
    expectTypeOf(event.delivered).toEqualTypeOf<boolean | undefined>();
  });

  test('a misspelt event type, and a payload that is not a schema, are refused by the compiler, too', () => {
    const misspelt = { 'transfer.setled': classic.object({}) };
    // @ts-expect-error: the type is misspelt.
    expect(() => webhookEventSchema(misspelt)).toThrow('unknown option `transfer.setled`');
    // @ts-expect-error: an object of strings is not a schema.
    expect(() => webhookEventSchema({ 'transfer.settled': { amount: 'string' } })).toThrow(
      'a schema of zod 4',
    );
  });

  test('it composes with classic zod', () => {
    const schema = classic.object({ events: classic.array(webhookEventSchema()), limits: limitsSchema });
    const value = { events: [EVENT], limits: WALLET.limits };
    expect(schema.parse(value)).toEqual(value);
    expectTypeOf<classic.infer<typeof schema>['events'][number]['type']>().toEqualTypeOf<EventType>();
  });
});

describe('walletSchema and limitsSchema', () => {
  test('a wallet and its limits keep the fields that the schema does not know', () => {
    const wallet = { ...WALLET, newer: 1, limits: { ...WALLET.limits, weekly: '500' } };
    expect(walletSchema.parse(wallet)).toEqual(wallet);
  });

  test('each wrong field is named', () => {
    expect(wrongPaths(walletSchema, { ...WALLET, balance: 1, limits: { perTx: '1' } })).toEqual([
      'balance',
      'limits.daily',
    ]);
    expect(wrongPaths(limitsSchema, { perTx: 10.5, daily: '100' })).toEqual(['perTx']);
  });
});
