/** `withPayload`: the payload is checked before the handler runs, and no content of it reaches an error. */
import { inspect } from 'node:util';
import { type StandardSchema, withPayload } from 'stablehooks';
import { expect, test, vi } from 'vitest';
import * as z from 'zod';
import * as mini from 'zod/mini';
import { anEvent, deferred } from './delivery.js';
import { setUp } from './set-up.js';

const IBAN = 'DE02120300000000202051';

/** The fields that the error names for a payload that does not match, after a check that nothing else of it leaked. */
async function fieldsOf(schema: StandardSchema, payload: Readonly<Record<string, unknown>>) {
  const handler = vi.fn();
  const { receiver, inbox, lines } = setUp(withPayload(schema, handler));
  const event = anEvent({ payload });
  const { kind, error } = await receiver.handle(event, 'push');
  expect([kind, error?.code]).toEqual(['failed', 'ERR_PAYLOAD_INVALID']);
  expect(handler).not.toHaveBeenCalled();
  const record = await inbox.find(event.id);
  expect(record).toMatchObject({ state: 'failed', event });
  const told = [...lines, record?.lastError, inspect(error, { depth: 9 })].join('\n');
  expect(told).not.toMatch(/DE02|planted/);
  const fields = error !== undefined && 'fields' in error ? error.fields : [];
  expect(error?.message).toContain(`does not match its schema at ${fields?.join(', ')}.`);
  return fields;
}

const amount = z.object({ amount: z.string() });

/** A schema that answers as libraries other than zod do. */
const issuesOf = (validate: (payload: Record<string, unknown>) => readonly { path: readonly unknown[] }[]) =>
  ({
    '~standard': {
      validate: (value) => ({
        issues: validate(value as Record<string, unknown>).map((issue) => ({
          message: `planted: ${JSON.stringify(value)}`,
          path: issue.path as PropertyKey[],
        })),
      }),
    },
  }) satisfies StandardSchema;

/** Entries of an object as one value, as a transform of the app makes them. */
const byOwner = z.preprocess(
  (payload) => {
    const { accounts } = payload as { accounts: readonly { owner: string; amount: unknown }[] };
    return Object.fromEntries(accounts.map((account) => [account.owner, account.amount]));
  },
  z.record(z.string(), z.string()),
);

test.each<[string, StandardSchema, Record<string, unknown>, readonly string[]]>([
  ['a declared name with a wrong value', amount, { amount: { planted: 'planted' } }, ['payload.amount']],
  ['a declared name without a value', amount, { memo: 'planted' }, ['payload.amount']],
  [
    'declared names inside of declared names',
    z.object({ fee: amount, address2: z.string() }),
    { fee: { amount: 7 }, address2: 7 },
    ['payload.fee.amount', 'payload.address2'],
  ],
  ['a record', z.record(z.string(), z.string()), { planted: 7 }, ['payload.*']],
  [
    'a nested record of objects',
    z.object({ balances: z.record(z.string(), amount) }),
    { balances: { planted: { amount: 7 }, 'k\0': 1 } },
    ['payload.balances.*.amount', 'payload.balances.*'],
  ],
  ['a key that the record refuses', z.record(z.string().max(1), z.any()), { planted: '7' }, ['payload.*']],
  [
    'a record whose keys are declared',
    z.record(z.enum(['fee1', 'net']), z.string()),
    { fee1: 7, net: '7' },
    ['payload.fee1'],
  ],
  ['an unknown key of a strict object', z.strictObject({}), { planted: 7 }, ['payload']],
  ['a catch-all', z.object({}).catchall(z.string()), { planted: 7 }, ['payload.*']],
  [
    'array indexes',
    z.object({ items: z.array(amount) }),
    { items: [{}, 'planted'] },
    ['payload.items.0.amount', 'payload.items.1'],
  ],
  [
    'both sides of a transform, and types that JSON Schema lacks,',
    z.object({
      at1: z.date(),
      sum1: z
        .string()
        .transform((text): unknown => JSON.parse(text))
        .pipe(z.object({ net1: z.string() })),
      of1: z.transform((value) => value).pipe(z.object({ net2: z.string() })),
    }),
    { sum1: '{}', of1: {} },
    ['payload.at1', 'payload.sum1.net1', 'payload.of1.net2'],
  ],
  [
    'a key that a transform made of content',
    byOwner,
    { accounts: [{ owner: 'planted', amount: 7 }] },
    ['payload.*'],
  ],
  [
    'a key that a check of the app names',
    z.record(z.string(), z.number()).check(({ value, issues }) => {
      for (const path of Object.keys(value)) issues.push({ code: 'custom', path: [path], input: value });
    }),
    { planted: 7 },
    ['payload.*'],
  ],
  [
    'the keys of an async record beside a missing name',
    z.object({
      memo: z.string(),
      of: z.record(
        z.string(),
        z.string().refine(async () => false),
      ),
    }),
    { of: { planted: '7' } },
    ['payload.memo', 'payload.of.*'],
  ],
])('an error names %s only as far as the schema declares it', async (_name, schema, payload, fields) => {
  expect(await fieldsOf(schema, payload)).toEqual(fields);
});

/** One path, of the payload's first key. */
const firstKey = (toPath: (key: string) => readonly unknown[]) =>
  issuesOf((payload) => Object.keys(payload).map((key) => ({ path: toPath(key) })));

test.each<[string, StandardSchema, Record<string, unknown>, readonly string[]]>([
  [
    'plain words and indexes',
    mini.object({ line_items: mini.array(mini.object({ 'net-Amount': mini.string() })) }),
    { line_items: [{}] },
    ['payload.line_items.0.net-Amount'],
  ],
  ['no other keys', mini.record(mini.string(), mini.string()), { [IBAN]: 7, 'a@b.c': 7 }, ['payload.*']],
  ['no long words', firstKey((key) => [key]), { ['x'.repeat(65)]: 7 }, ['payload.*']],
  ['paths whose parts are objects', firstKey((key) => [{ key }]), { amount: 7 }, ['payload.amount']],
  [
    'no number keys of an object, which are no indexes',
    firstKey((key) => [Number(key)]),
    { 4111111111111111: 7 },
    ['payload.*'],
  ],
  ['no symbols', issuesOf(() => [{ path: [Symbol(IBAN)] }]), {}, ['payload.*']],
  ['the payload for no path', issuesOf(() => [{ path: [] }]), { planted: 7 }, ['payload']],
  [
    'the payload for an issue without a path',
    { '~standard': { validate: () => ({ issues: [{ message: 'planted' }] }) } },
    {},
    ['payload'],
  ],
  [
    'plain words, where the JSON Schema cannot be made',
    {
      '~standard': {
        ...firstKey((key) => [key])['~standard'],
        jsonSchema: {
          input() {
            throw new Error('planted');
          },
        },
      },
    } as StandardSchema,
    { amount: 7, [IBAN]: 7 },
    ['payload.amount', 'payload.*'],
  ],
])('of a schema without JSON Schema, an error names %s', async (_name, schema, payload, fields) => {
  expect(await fieldsOf(schema, payload)).toEqual(fields);
});

test('a payload is validated once, and an error names 10 of its fields, each 10 keys deep', async () => {
  const schema = firstKey((key) => [key, ...Array.from({ length: 20 }, () => 'deep')]);
  const validate = vi.spyOn(schema['~standard'], 'validate');
  const toKey = (n: number) => String.fromCharCode(97 + (n % 26)).repeat(1 + n / 26);
  const payload = Object.fromEntries(Array.from({ length: 1_000 }, (_, n) => [toKey(n), 7]));
  const fields = await fieldsOf(schema, payload);
  expect(fields).toHaveLength(10);
  expect(fields?.[0]).toBe(`payload.a${'.deep'.repeat(9)}`);
  expect(validate).toHaveBeenCalledOnce();
});

test.each([
  ['a transform', z.string().transform(Number)],
  ['an async transform', z.string().transform(async (text) => Number(text))],
])('the handler gets the output of %s, and the inbox keeps the event as it arrived', async (_name, at) => {
  const got = deferred<unknown>();
  const schema = z.object({ amount: z.string(), at });
  const { receiver, inbox } = setUp(withPayload(schema, (event) => got.resolve(event)));
  const event = anEvent({ payload: { amount: '1.10', at: '7', more: true } });
  expect((await receiver.handle(event, 'push')).kind).toBe('handled');
  expect(await got.promise).toEqual({ ...event, payload: { amount: '1.10', at: 7 } });
  expect((await inbox.find(event.id))?.event).toEqual(event);
});

test('a schema that throws, and a handler that does, fail the event as handlers do', async () => {
  const no = new Error('no');
  const throwing = issuesOf(() => {
    throw no;
  });
  for (const handler of [
    withPayload(throwing, () => undefined),
    withPayload(z.any(), () => Promise.reject(no)),
  ]) {
    expect((await setUp(handler).deliver()).error).toMatchObject({ code: 'ERR_HANDLER_FAILED', cause: no });
  }
});
