/** `withPayload`: the payload is checked before the handler runs, and no content of it reaches an error. */
import { inspect } from 'node:util';
import { type StandardSchema, withPayload } from 'stablehooks';
import { expect, test, vi } from 'vitest';
import * as z from 'zod/mini';
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
const keyOf = (pattern: RegExp) => z.string().check(z.regex(pattern));
const ofIban = keyOf(/^DE\d{20}$/);

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
const byOwner = z.pipe(
  z.transform((payload: unknown) => {
    const { accounts } = payload as { accounts: readonly { iban: string; amount: unknown }[] };
    return Object.fromEntries(accounts.map((account) => [account.iban, account.amount]));
  }),
  z.record(z.string(), z.string()),
);

test.each<[string, StandardSchema, Record<string, unknown>, readonly string[]]>([
  ['a declared name with a wrong value', amount, { amount: { planted: 'planted' } }, ['payload.amount']],
  ['a declared name without a value', amount, { memo: 'planted' }, ['payload.amount']],
  [
    'declared names inside of declared names',
    z.object({ fee: amount, amount: z.string() }),
    { fee: { amount: 7 }, amount: 7 },
    ['payload.fee.amount', 'payload.amount'],
  ],
  ['a record', z.record(z.string(), z.string()), { [IBAN]: 7 }, ['payload.*']],
  [
    'a nested record of objects',
    z.object({ balances: z.record(z.string(), amount) }),
    { balances: { [IBAN]: { amount: 7 }, 'k\0': 1 } },
    ['payload.balances.*.amount', 'payload.balances.*'],
  ],
  ['a key that the record refuses', z.record(ofIban, z.string()), { [`${IBAN}1`]: '7' }, ['payload.*']],
  [
    'a record of the keys that match, which lets others pass',
    z.looseRecord(ofIban, z.string()),
    { [IBAN]: 7 },
    ['payload.*'],
  ],
  [
    'a record whose keys are declared',
    z.record(z.enum(['fee', 'net']), z.string()),
    { fee: 7, net: '7' },
    ['payload.fee'],
  ],
  [
    'a nested union',
    z.object({ of: z.union([amount, z.record(z.string(), z.string())]) }),
    { of: { [IBAN]: 7 } },
    ['payload.of'],
  ],
  [
    'a discriminated union',
    z.discriminatedUnion('kind', [
      z.object({ kind: z.literal('many'), balances: z.record(z.string(), z.string()) }),
      z.object({ kind: z.literal('one'), amount: z.string() }),
    ]),
    { kind: 'many', balances: { [IBAN]: 7 } },
    ['payload.balances.*'],
  ],
  [
    'an unknown discriminator',
    z.discriminatedUnion('kind', [z.object({ kind: z.literal('one') })]),
    { kind: IBAN },
    ['payload.kind'],
  ],
  ['an unknown key of a strict object', z.strictObject({}), { [IBAN]: 7 }, ['payload']],
  ['a catch-all', z.catchall(z.object({}), z.string()), { [IBAN]: 7 }, ['payload.*']],
  [
    'array indexes',
    z.object({ items: z.array(amount) }),
    { items: [{}, 'planted'] },
    ['payload.items.0.amount', 'payload.items.1'],
  ],
  [
    'a key that a transform made of content',
    byOwner,
    { accounts: [{ iban: IBAN, amount: 7 }] },
    ['payload.*'],
  ],
  [
    'a key that a check of the app names',
    z.record(z.string(), z.number()).check(({ value, issues }) => {
      for (const path of Object.keys(value)) {
        if (path.startsWith('DE')) issues.push({ code: 'custom', path: [path], input: value });
      }
    }),
    { [IBAN]: 7 },
    ['payload.*'],
  ],
  [
    'paths whose parts are objects',
    issuesOf((payload) => Object.keys(payload).map((key) => ({ path: [{ key }] }))),
    { [IBAN]: 7 },
    ['payload.*'],
  ],
  [
    'number keys of an object, which are no indexes',
    issuesOf((payload) => Object.keys(payload).map((key) => ({ path: [Number(key)] }))),
    { 4111111111111111: 7 },
    ['payload.*'],
  ],
  [
    'a key that ends with a capital letter',
    z.looseRecord(keyOf(/^DE02[A-Z]$/), z.string()),
    { DE02Z: 7 },
    ['payload.*'],
  ],
  [
    'a key that ends with a small letter',
    z.looseRecord(keyOf(/^DE02[a-z]$/), z.string()),
    { DE02a: 7 },
    ['payload.*'],
  ],
  ['a key that ends with a nine', z.looseRecord(keyOf(/^DE02\d$/), z.string()), { DE029: 7 }, ['payload.*']],
  [
    'a record in an array',
    z.object({ items: z.array(z.record(z.string(), z.string())) }),
    { items: [{ [IBAN]: 7, none: null }] },
    ['payload.items.0.*'],
  ],
  [
    'a missing name beside the keys of an async record',
    z.object({ memo: z.string(), of: z.record(z.string(), z.string().check(z.refine(async () => false))) }),
    { of: { [IBAN]: '7' } },
    ['payload.memo', 'payload.of.*'],
  ],
  [
    'a name without which the payload matches',
    {
      '~standard': {
        validate: (value) =>
          'fee' in Object(value) ? { issues: [{ message: '', path: ['fee'] }] } : { value },
      },
    },
    { fee: 7 },
    ['payload.fee'],
  ],
  [
    'a key without which the schema throws',
    issuesOf((payload) => {
      if (!(IBAN in payload)) throw new Error('planted');
      return [{ path: [IBAN] }];
    }),
    { [IBAN]: 7 },
    ['payload.*'],
  ],
  [
    'an issue without a path',
    { '~standard': { validate: () => ({ issues: [{ message: 'planted' }] }) } },
    {},
    ['payload'],
  ],
  ['a symbol', issuesOf(() => [{ path: [Symbol(IBAN)] }]), {}, ['payload.*']],
  ['no path', issuesOf(() => [{ path: [] }]), { planted: 7 }, ['payload']],
])('an error names %s only as far as the schema declares it', async (_name, schema, payload, fields) => {
  expect(await fieldsOf(schema, payload)).toEqual(fields);
});

test('an error names the fields of 10 issues, and an async schema works as well', async () => {
  const schema = z.record(z.string(), z.string().check(z.refine(async () => false)));
  expect(
    await fieldsOf(schema, Object.fromEntries(Array.from({ length: 50 }, (_, n) => [`${n}`, 'x']))),
  ).toEqual(['payload.*']);
  const many = z.object(Object.fromEntries(Array.from({ length: 50 }, (_, n) => [`f${n}`, z.string()])));
  expect(await fieldsOf(many, {})).toHaveLength(10);
});

test.each([
  ['a transform', z.pipe(z.string(), z.transform(Number))],
  [
    'an async transform',
    z.pipe(
      z.string(),
      z.transform(async (text) => Number(text)),
    ),
  ],
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

test('what is not a schema or a function is refused', () => {
  const untyped = withPayload as (...args: unknown[]) => unknown;
  const refusal = (message: RegExp) =>
    expect.objectContaining({ code: 'ERR_CONFIG_INVALID', message: expect.stringMatching(message) });
  for (const schema of [undefined, null, {}, { amount: 'string' }, { '~standard': {} }]) {
    expect(() => untyped(schema, () => undefined)).toThrow(refusal(/must be a Standard Schema/));
  }
  expect(() => untyped(z.any(), undefined)).toThrow(refusal(/must be a function/));
});
