/** The signature is node:crypto's own HMAC-SHA256, whatever the length of the secret and of the body. */
import { createHmac } from 'node:crypto';
import fc from 'fast-check';
import { sign, verifySignature } from 'stablehooks';
import { expect, test } from 'vitest';

/** Around a block of SHA-256, and around where the way of hashing changes. */
const secretLengths = [1, 32, 63, 64, 65, 128, 1_000];
const bodyLengths = [0, 1, 55, 56, 63, 64, 65, 300, 8_127, 8_128, 8_191, 8_192, 8_193, 70_000];

const filled = (length: number) => Uint8Array.from({ length }, (_, index) => (index * 151 + length) % 256);

test.each(secretLengths)('a secret of %i bytes signs bodies of every length alike', async (length) => {
  const secret = filled(length);
  for (const body of bodyLengths.map(filled)) {
    const expected = createHmac('sha256', secret).update(body).digest('hex');
    expect(await sign(body, { secret })).toBe(expected);
    expect(await verifySignature(body, expected, { secret })).toBe(true);
  }
});

test('bytes of a larger buffer, and all of Unicode in a secret', async () => {
  const secret = fc.string({ unit: 'grapheme', minLength: 1 }).filter((text) => text === text.trim());
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
