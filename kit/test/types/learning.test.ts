import fc from 'fast-check';
import { EVENT_TYPES, type EventType } from 'stablehooks';
import { exampleEvent } from 'stablehooks/testing';
import { createSandbox } from 'stablehooks-kit/sandbox';
import { describe, expect, test } from 'vitest';
import * as zod from 'zod';
import { readSource, SourceError } from '../../src/types/read-source.js';
import { compareShapes, type LearningRules, type Shape, widen } from '../../src/types/shape.js';
import { type LearnedPayloads, toSource } from '../../src/types/source-text.js';

type Payload = Readonly<Record<string, unknown>>;

const TYPE = 'transfer.settled';

const rulesOf = ({ enums = [], maps = [] }: { enums?: readonly string[]; maps?: readonly string[] }) =>
  ({
    isEnum: (field) => enums.includes(field),
    isMap: (field) => maps.includes(field),
  }) satisfies LearningRules;

function learn(payloads: readonly unknown[], rules: LearningRules = rulesOf({})): LearnedPayloads {
  const shape = payloads.reduce<Shape | undefined>(
    (known, payload) => widen(known, payload, { field: TYPE, rules }),
    undefined,
  );
  return new Map(shape === undefined ? [] : [[TYPE, shape]]);
}

function learnOne(payloads: readonly unknown[], rules?: LearningRules): Shape | undefined {
  return learn(payloads, rules).get(TYPE);
}

/** The schemas of the module, as an app that imports it gets them. */
function evaluate(source: string): Readonly<Record<string, zod.ZodType>> {
  const body = source
    .replaceAll(/^(?:import|export type) .*$/gm, '')
    .replace('export const payloads =', 'return');
  return new Function('z', body)(zod);
}

/** What `--check` says of a payload. */
function differencesOf(known: Shape | undefined, payload: unknown): readonly string[] {
  const widened = widen(known, payload, { field: TYPE, rules: rulesOf({}) });
  return compareShapes(known, widened, TYPE).map(({ field, what }) => `${field} ${what}`);
}

/** JSON as it arrives: what `JSON.stringify` makes of it. */
const json = (value: unknown): unknown => JSON.parse(JSON.stringify(value));
const name = fc
  .oneof(fc.constantFrom('id', 'amount', 'a b', "it's", '"', '1', '\\', '\u2028'), fc.string())
  .filter((key) => !(key in Object.prototype));
const { value: randomValue } = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.oneof(
      fc.string(),
      fc.integer(),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.boolean(),
      fc.constant(null),
    ),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(name, tie('value'), { maxKeys: 5 }),
  ),
}));
const randomPayload = fc.dictionary(name, randomValue, { maxKeys: 8 }).map((value) => json(value) as Payload);
const randomPayloads = fc.array(randomPayload, { minLength: 1, maxLength: 6 });

describe('what is learned from random payloads', () => {
  test('accepts every one of them, as it was, in the schemas of the file', () => {
    fc.assert(
      fc.property(randomPayloads, fc.boolean(), (payloads, asked) => {
        const rules = asked ? { isEnum: () => true, isMap: (field: string) => field !== TYPE } : rulesOf({});
        const schema = evaluate(toSource(learn(payloads, rules)))[TYPE];
        for (const payload of payloads) {
          const parsed = schema?.safeParse(payload);
          expect(parsed?.success).toBe(true);
          expect(parsed?.data).toEqual(payload);
        }
      }),
      { numRuns: 40 },
    );
  });

  test('is read from the file as it was written, and has nothing to add to it', () => {
    fc.assert(
      fc.property(randomPayloads, fc.boolean(), (payloads, asked) => {
        const rules = asked ? { isEnum: () => true, isMap: () => true } : rulesOf({});
        const learned = learn(payloads, rules);
        const read = readSource(toSource(learned));
        expect(read).toEqual(learned);
        for (const payload of payloads) expect(differencesOf(read.get(TYPE), payload)).toEqual([]);
      }),
      { numRuns: 100 },
    );
  });

  test('does not depend on their order', () => {
    fc.assert(
      fc.property(randomPayloads, (payloads) => {
        expect(toSource(learn(payloads.toReversed()))).toBe(toSource(learn(payloads)));
      }),
    );
  });

  test('holds no string and no number of a payload', () => {
    fc.assert(
      fc.property(fc.uuid(), fc.integer({ min: 1_000_000 }), fc.array(name), (secret, number, keys) => {
        const payload = json({ secret, [secret.length]: [{ secret, number }], keys: keys.map(() => number) });
        const source = toSource(learn([payload]));
        expect(source).not.toContain(secret);
        expect(source).not.toContain(String(number));
      }),
    );
  });
});

/** The events of a sandbox after movements of every kind, with and without a wallet. */
function sandboxEvents() {
  const sandbox = createSandbox({ seed: 1 });
  const { id } = sandbox.wallets.create({
    agentId: 'agent',
    chain: 'base',
    limits: { perTx: '100', daily: '1000' },
    allowlist: ['shop'],
  });
  for (let n = 0; n < 20; n++) {
    sandbox.accept(n % 2 ? {} : { walletId: id });
    sandbox.transfer({ failsWith: 'routing' });
    sandbox.send(id, { amount: '1', to: 'shop' });
    sandbox.redeem();
    sandbox.redeem({ failsWith: 'bank' });
  }
  return sandbox.events().flatMap(({ type, payload }) => {
    const known = EVENT_TYPES.find((one) => one === type);
    return known === undefined ? [] : [{ type: known, payload }];
  });
}

type Change = 'removed' | 'renamed' | 'of another type';

/** Payloads that differ from this one in one field. */
function mutantsOf(payload: Payload) {
  return Object.entries(payload).flatMap(([field, value]) => {
    const { [field]: _, ...rest } = payload;
    const others = [typeof value === 'string' ? 7 : 'text', null, [value], { value }];
    const changes: readonly (readonly [Change, Payload])[] = [
      ['removed', rest],
      ['renamed', { ...rest, [`${field}_v2`]: value }],
      ...others.map((other) => ['of another type', { ...rest, [field]: other }] as const),
    ];
    return changes.map(([change, mutant]) => ({ field, change, mutant }));
  });
}

describe('a payload with one field changed', () => {
  const learned = new Map<EventType, Shape>();
  const events = sandboxEvents();
  for (const { type, payload } of events)
    learned.set(type, widen(learned.get(type), payload, { field: type, rules: rulesOf({}) }));
  const mutants = events.flatMap(({ type, payload }) =>
    mutantsOf(payload).map(({ field, change, mutant }) => {
      const optional = learned.get(type)?.object?.get(field)?.optional === true;
      return { type, mutant, how: `${optional ? 'an optional' : 'a required'} field ${change}` };
    }),
  );

  test('is reported by a check in at least 99 of 100 cases: in all, except an optional field removed', () => {
    expect(mutants.length).toBeGreaterThan(4_000);
    const missed = mutants.filter(
      ({ type, mutant }) => differencesOf(learned.get(type), mutant).length === 0,
    );
    expect(new Set(missed.map(({ how }) => how))).toEqual(new Set(['an optional field removed']));
    expect(missed.length / mutants.length).toBeLessThanOrEqual(0.01);
  });

  test('is refused by the schemas of the file, except an optional field removed or renamed', () => {
    const schemas = evaluate(toSource(learned));
    const missed = mutants.filter(({ type, mutant }) => schemas[type]?.safeParse(mutant).success !== false);
    expect(new Set(missed.map(({ how }) => how))).toEqual(
      new Set(['an optional field removed', 'an optional field renamed']),
    );
  });
});

describe('the learned schemas', () => {
  test('accept and keep a field that is newer than the file, and the check names it', () => {
    const known = learn([{ a: 1 }]);
    const schema = evaluate(toSource(known))[TYPE];
    expect(schema?.parse({ a: 2, newer: { b: 1 } })).toEqual({ a: 2, newer: { b: 1 } });
    expect(differencesOf(known.get(TYPE), { a: 2, newer: { b: 1 } })).toEqual([
      'transfer.settled.newer is new',
    ]);
  });

  test.each<[string, readonly unknown[], string]>([
    ['a string', [{ a: '10.50' }], 'a: z.string(),'],
    ['a date, which stays a string', [{ a: '2026-01-01T00:00:00Z' }], 'a: z.string(),'],
    ['integers', [{ a: 1 }, { a: -2 }], 'a: z.int(),'],
    ['integers and fractions', [{ a: 1 }, { a: 1.5 }], 'a: z.number(),'],
    ['integers that are not safe', [{ a: 2 ** 60 }], 'a: z.number(),'],
    ['null', [{ a: null }], 'a: z.null(),'],
    ['null and a string', [{ a: null }, { a: 'x' }], 'a: z.nullable(z.string()),'],
    ['a missing field', [{}, { a: true }], 'a: z.optional(z.boolean()),'],
    ['a field that is missing later', [{ a: true }, {}], 'a: z.optional(z.boolean()),'],
    ['two kinds', [{ a: 1 }, { a: 'x' }], 'a: z.union([z.int(), z.string()]),'],
    ['an empty array', [{ a: [] }], 'a: z.array(z.unknown()),'],
    [
      'an array of two kinds',
      [{ a: [1, 'x', null] }],
      'a: z.array(z.nullable(z.union([z.int(), z.string()]))),',
    ],
    ['an empty object', [{ a: {} }], 'a: z.looseObject({}),'],
    ['keys that look like ids', [{ a: { wal_1: 1 } }], 'wal_1: z.int(),'],
  ])('for %s', (_, payloads, expected) => {
    expect(toSource(learn(payloads))).toContain(`    ${expected}\n`);
  });

  test('a field is an enum and an object is a map only where asked', () => {
    const payloads = [
      { reason: 'bank', balances: { wal_1: '1', wal_2: '2' } },
      { reason: 'aml', balances: {} },
    ];
    const rules = rulesOf({ enums: ['transfer.settled.reason'], maps: ['transfer.settled.balances'] });
    const source = toSource(learn(payloads, rules));
    expect(source).toContain("    reason: z.enum(['aml', 'bank']),\n");
    expect(source).toContain('    balances: z.record(z.string(), z.string()),\n');
    const plain = toSource(learn(payloads));
    expect(plain).toContain('    reason: z.string(),\n');
  });

  test('an enum of the file stays one: the next run adds values, and a check names the field, not the value', () => {
    const file = readSource(toSource(learn([{ r: 'a' }], rulesOf({ enums: ['transfer.settled.r'] }))));
    const known = file.get(TYPE);
    expect(differencesOf(known, { r: 'new-value' })).toEqual([
      'transfer.settled.r has a value that the enum does not list',
    ]);
    const rules = rulesOf({});
    const widened = widen(known, { r: 'b' }, { field: TYPE, rules });
    expect(toSource(new Map([[TYPE, widened]]))).toContain("r: z.enum(['a', 'b'])");
  });

  test.each<[string, unknown, string]>([
    ['a missing field', {}, '.a is missing'],
    ['another type', { a: 'x' }, '.a is also a string'],
    ['null', { a: null }, '.a is also null'],
    ['a fraction', { a: 1.5 }, '.a is not always an integer'],
  ])('the check says %s', (_, payload, difference) => {
    expect(differencesOf(learnOne([{ a: 1 }]), payload)).toEqual([TYPE + difference]);
  });

  test('the check names fields inside arrays and maps', () => {
    const known = learnOne([{ a: [{ b: 1 }], m: { k: 1 } }], rulesOf({ maps: ['transfer.settled.m'] }));
    expect(differencesOf(known, { a: [{ b: 'x' }], m: { other: 'x' } })).toEqual([
      'transfer.settled.a[].b is also a string',
      'transfer.settled.m.* is also a string',
    ]);
  });

  test('a payload that is nested deeply is learned without a stack overflow', () => {
    const deep = JSON.parse(`${'{"a":'.repeat(3_000)}1${'}'.repeat(3_000)}`);
    const learned = learn([deep]);
    expect(evaluate(toSource(learned))[TYPE]?.safeParse(deep).success).toBe(true);
    expect(readSource(toSource(learned))).toEqual(learned);
  });
});

describe('reading the file', () => {
  const learned = learn([exampleEvent(TYPE).payload, { "it's": [{ a: 'x' }] }]);
  const source = toSource(learned);

  test('does not depend on quotes, commas, line ends and comments', () => {
    const reformatted = source
      .replaceAll(/'(?=[\w.]+')|(?<='[\w.]+)'/g, "'")
      .replaceAll(/,\n/g, ' ,\r\n // a note, with z.string()\r\n')
      .replaceAll(';\n', '\n');
    expect(readSource(reformatted)).toEqual(learned);
    expect(readSource(source.replaceAll(/'([\w.]+)'/g, '"$1"'))).toEqual(learned);
  });

  test.each([
    ['a file of somebody else', "import * as z from 'zod';\nexport const payloads = {};\n"],
    ['a schema that it does not write', source.replace('z.string()', 'z.string().min(1)')],
    ['an unknown event type', source.replace(`'${TYPE}': `, "'transfer.setled': ")],
    ['code after the schemas', `${source}\nexport const more = 1;\n`],
    ['code before the schemas', source.replace('export const', 'const before = 1;\nexport const')],
    ['half of a file', source.slice(0, source.length / 2)],
  ])('refuses %s, because writing it again would lose it', (_, text) => {
    expect(() => readSource(text)).toThrow(SourceError);
  });

  test('names the line that it cannot read', () => {
    const lines = source.split('\n');
    const line = lines.findIndex((one) => one.includes('amount: '));
    const text = source.replace(/amount: z\.optional\(z\.string\(\)\)/, 'amount: decimal');
    expect(() => readSource(text)).toThrow(`Line ${line + 1} `);
  });
});
