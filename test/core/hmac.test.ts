import nodeCrypto, { createHmac } from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import fc from 'fast-check';
import { sign, verifySignature } from 'stablehooks';
import { expect, onTestFinished, test, vi } from 'vitest';

/** Around the block size of SHA-256. */
const secretLengths = [1, 32, 63, 64, 65, 128, 1_000];
const bodyLengths = [0, 1, 55, 56, 63, 64, 65, 300, 8_127, 8_128, 8_191, 8_192, 8_193, 70_000];

const filled = (length: number) => Uint8Array.from({ length }, (_, index) => (index * 151 + length) % 256);

test.each(secretLengths)(
  'a secret of %i bytes signs bodies of every length as node:crypto does',
  async (length) => {
    const secret = filled(length);
    for (const body of bodyLengths.map(filled)) {
      const expected = createHmac('sha256', secret).update(body).digest('hex');
      expect(await sign(body, { secret })).toBe(expected);
      expect((await verifySignature(body, expected, { secret })).secretIndex).toBe(0);
    }
  },
);

test('sign takes views of a larger buffer, and secrets of any Unicode string', async () => {
  const secret = fc
    .string({ unit: 'grapheme', minLength: 1 })
    .filter((text) => text === text.trim() && /[^\0]/.test(text));
  await fc.assert(
    fc.asyncProperty(
      fc.uint8Array({ maxLength: 20_000 }),
      fc.nat({ max: 100 }),
      secret,
      async (bytes, skip, text) => {
        const body = bytes.subarray(skip);
        const expected = createHmac('sha256', text).update(body).digest('base64');
        expect(await sign(body, { secret: text, encoding: 'base64' })).toBe(expected);
      },
    ),
  );
});

test('secrets that are Buffers are told apart, even if neither is UTF-8', async () => {
  const [one, other] = ['ff', 'fe'].map((byte) => Buffer.from(byte.repeat(32), 'hex')) as [Buffer, Buffer];
  const signature = await sign(filled(10), { secret: one });
  expect((await verifySignature(filled(10), signature, { secret: [other, one] })).secretIndex).toBe(1);
  await expect(verifySignature(filled(10), signature, { secret: other })).rejects.toMatchObject({
    code: 'ERR_SIGNATURE_MISMATCH',
  });
});

/** Counts the calls of the platform's comparison in constant time: of node:crypto, or of WebCrypto. */
function countComparisons(): () => number {
  const spies = [vi.spyOn(nodeCrypto, 'timingSafeEqual'), vi.spyOn(crypto.subtle, 'verify')];
  syncBuiltinESMExports();
  onTestFinished(() => {
    for (const spy of spies) spy.mockRestore();
    syncBuiltinESMExports();
  });
  return () => spies.reduce((sum, { mock }) => sum + mock.calls.length, 0);
}

test.each([
  ['each of three secrets if the first matches', ['a', 'b', 'c'], 'a', 3],
  ['each of three secrets if the last matches', ['a', 'b', 'c'], 'c', 3],
  ['each of three secrets if none matches', ['a', 'b', 'c'], 'd', 3],
  ['the only secret', 'a', 'a', 1],
  ['something in place of the secret of an unknown sender', () => null, 'a', 1],
])('a verification compares %s, in constant time', async (_, secret, signedWith, comparisons) => {
  const signature = await sign(filled(10), { secret: signedWith });
  const count = countComparisons();
  await verifySignature(filled(10), signature, { secret }).catch(() => undefined);
  expect(count()).toBe(comparisons);
});
