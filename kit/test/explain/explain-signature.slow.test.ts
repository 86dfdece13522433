import { brotliCompressSync, gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { sign } from 'stablehooks';
import { expect, test } from 'vitest';
import { explainSignature } from '../../src/explain/explain-signature.js';

const bytes = (text: string) => new TextEncoder().encode(text);

/** JSON objects as JavaScript writes them. */
const json = fc
  .dictionary(fc.string({ minLength: 1 }), fc.jsonValue({ maxDepth: 2 }), { minKeys: 1, maxKeys: 4 })
  .map((value) => JSON.stringify(value));

/** Secrets as dashboards give them. */
const secrets = fc.stringMatching(/^[A-Za-z0-9]{16,40}$/);

/** How a body or a secret can be changed, and how the explanation names it. */
type Spoil<Value> = readonly [spoil: (value: string) => Value, what: string];

const BODY_CHANGES: Readonly<Record<string, Spoil<string | Uint8Array>>> = {
  newline: [(body) => `${body}\n`, 'a newline (LF) was added'],
  'carriage return': [(body) => `${body}\r\n`, 'CR'],
  bom: [(body) => `\ufeff${body}`, 'BOM'],
  gzip: [(body) => gzipSync(body), 'gzip'],
  base64: [(body) => Buffer.from(body).toString('base64'), 'it is encoded in base64'],
  indented: [(body) => JSON.stringify(JSON.parse(body), null, 2), 'serialized again'],
  'written into a string': [(body) => JSON.stringify(body), 'string'],
};

const SECRET_CHANGES: readonly Spoil<string>[] = [
  [(secret) => secret, ''],
  [(secret) => `"${secret}"`, 'quotes around it'],
  [(secret) => ` ${secret}\n`, 'white space around it'],
  [(secret) => Buffer.from(secret).toString('hex'), 'hex encoding of the key'],
  [(secret) => Buffer.from(secret).toString('base64'), 'base64 encoding of the key'],
  [(secret) => `WEBHOOK_SECRET=${secret}`, 'the name of its variable'],
];

const encoding = fc.constantFrom('hex', 'base64', 'base64url');

test('the right signature is verified with any body, secret and encoding', async () => {
  const anyBody = fc.uint8Array({ maxLength: 300 });
  // Zeros are the empty key, which is refused.
  const anySecret = fc
    .uint8Array({ minLength: 1, maxLength: 40 })
    .filter((bytes) => bytes.some((byte) => byte !== 0));
  await fc.assert(
    fc.asyncProperty(anyBody, anySecret, encoding, async (body, secret, encoding) => {
      const signature = await sign(body, { secret, encoding });
      expect(await explainSignature({ body, signature, secret, format: {} })).toEqual({
        verdict: 'verified',
      });
    }),
    { numRuns: 60 },
  );
});

test.for(Object.entries(BODY_CHANGES))(
  'a body changed by %s is explained with any change of the secret',
  async ([, [spoil, what]]) => {
    const secretChange = fc.constantFrom(...SECRET_CHANGES);
    await fc.assert(
      fc.asyncProperty(json, secrets, secretChange, async (body, secret, [spoilSecret, whatOfSecret]) => {
        const signature = await sign(bytes(body), { secret });
        const spoilt = spoil(body);
        const answer = await explainSignature({
          body: typeof spoilt === 'string' ? bytes(spoilt) : spoilt,
          signature,
          secret: bytes(spoilSecret(secret)),
          format: {},
        });
        const changes = [['body', what], ...(whatOfSecret === '' ? [] : [['secret', whatOfSecret]])];
        const named = changes.map(([part, text = '']) =>
          expect.objectContaining({ part, what: expect.stringContaining(text) }),
        );
        expect(answer).toMatchObject({ verdict: 'explained', changes: expect.arrayContaining(named) });
        expect(JSON.stringify(answer)).not.toContain(secret);
      }),
      { numRuns: 12 },
    );
  },
);

test('a body that was read as Latin-1 is explained', async () => {
  const body = bytes('{"note":"Zoë"}');
  const signature = await sign(body, { secret: 'secret' });
  const read = bytes(Buffer.from(body).toString('latin1'));
  expect(
    await explainSignature({ body: read, signature, secret: bytes('secret'), format: {} }),
  ).toMatchObject({
    verdict: 'explained',
    changes: [{ part: 'body', what: expect.stringContaining('Latin-1') }],
  });
});

test('another secret or a changed amount is never explained', async () => {
  await fc.assert(
    fc.asyncProperty(json, secrets, secrets, async (body, secret, other) => {
      fc.pre(secret !== other);
      const signature = await sign(bytes(body), { secret });
      const wrongSecret = await explainSignature({
        body: bytes(body),
        signature,
        secret: bytes(other),
        format: {},
      });
      expect(wrongSecret.verdict).toBe('unexplained');
      const tampered = bytes(body.replace('{', '{"amount":"1.00",'));
      const wrongBody = await explainSignature({
        body: tampered,
        signature,
        secret: bytes(secret),
        format: {},
      });
      expect(wrongBody.verdict).toBe('unexplained');
    }),
    { numRuns: 15 },
  );
});

test('a small body that inflates to a very large one is explained within seconds', async () => {
  const start = process.cpuUsage();
  const signature = await sign(bytes('{}'), { secret: 'secret' });
  for (const inflatedBytes of [14_000_000, 1_000_000]) {
    const body = brotliCompressSync(new Uint8Array(inflatedBytes));
    expect(body.length).toBeLessThan(100);
    const answer = await explainSignature({ body, signature, secret: bytes('other'), format: {} });
    expect(answer.verdict).toBe('unexplained');
  }
  // Processor time, so the limit holds on a busy machine as well.
  const { user, system } = process.cpuUsage(start);
  expect((user + system) / 1_000_000).toBeLessThan(8);
});

test('a string that is not a signature is malformed', async () => {
  await fc.assert(
    fc.asyncProperty(fc.string({ maxLength: 40 }), async (signature) => {
      const answer = await explainSignature({
        body: bytes('{}'),
        signature,
        secret: bytes('secret'),
        format: {},
      });
      expect(answer).toEqual({ verdict: 'malformed' });
    }),
  );
});

/** A body of JSON with everything that white space depends on, of more than this many bytes. */
function largeValue(minBytes: number): unknown {
  const row = {
    id: 'evt_1',
    empty: {},
    none: [],
    note: 'a "quoted", back\\slashed: {value}',
    list: [1, [2], { a: null }],
  };
  return { rows: Array.from({ length: Math.ceil(minBytes / JSON.stringify(row).length) }, () => row) };
}

test.for([
  ['compact', (value: unknown) => JSON.stringify(value), 'was compact'],
  ['indented', (value: unknown) => JSON.stringify(value, null, 2), 'was indented by 2'],
] as const)('a body of 2 MB whose JSON was %s before is explained', async ([, write, what]) => {
  const value = largeValue(2_000_000);
  const signature = await sign(bytes(write(value)), { secret: 'secret' });
  const other = write(value).includes('\n') ? JSON.stringify(value) : JSON.stringify(value, null, '\t');
  const answer = await explainSignature({
    body: bytes(other),
    signature,
    secret: bytes('secret'),
    format: {},
  });
  expect(answer).toMatchObject({ verdict: 'explained', changes: [{ what: expect.stringContaining(what) }] });
});

test.for([10, 2_000_000])('JSON of %i bytes with spaces as Python writes it is explained', async (size) => {
  const value = { a: [1, { b: '"x,y": {}' }, []], pad: 'x'.repeat(size) };
  const python = `{"a": [1, {"b": "\\"x,y\\": {}"}, []], "pad": "${value.pad}"}`;
  const signature = await sign(bytes(python), { secret: 'secret' });
  const answer = await explainSignature({
    body: bytes(JSON.stringify(value)),
    signature,
    secret: bytes('secret'),
    format: {},
  });
  expect(answer).toMatchObject({
    verdict: 'explained',
    changes: [{ what: expect.stringContaining('a space after each comma and colon') }],
  });
});

test('a body of 16 MB is explained within seconds of the processor, with progress', async () => {
  const body = bytes(JSON.stringify(largeValue(16_000_000)));
  const signature = await sign(bytes('{}'), { secret: 'secret' });
  const start = process.cpuUsage();
  const shown: number[] = [];
  const answer = await explainSignature(
    { body, signature, secret: bytes('other'), format: {} },
    (tried, total) => shown.push(tried / total),
  );
  const { user, system } = process.cpuUsage(start);
  expect(answer.verdict).toBe('unexplained');
  expect(shown.length).toBeGreaterThan(5);
  expect(shown.at(-1)).toBeLessThanOrEqual(1);
  expect((user + system) / 1_000_000).toBeLessThan(12);
});
