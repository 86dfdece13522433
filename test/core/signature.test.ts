/** Signing and verifying: bytes in, a strict verdict out. */
import { createHmac } from 'node:crypto';
import fc from 'fast-check';
import { ConfigError, type SignatureEncoding, sign, verifySignature } from 'stablehooks';
import { describe, expect, test } from 'vitest';

const secret = 'whsec_test';
const utf8 = (text: string) => new TextEncoder().encode(text);
const body = utf8('{"id":"evt_1"}');
const encodings: readonly SignatureEncoding[] = ['hex', 'base64', 'base64url'];
const bodies = fc.uint8Array({ maxLength: 4_096 });
const secrets = fc.uint8Array({ minLength: 1, maxLength: 200 });

describe('sign', () => {
  test('is HMAC-SHA256 over the bytes, as node:crypto computes it', async () => {
    await fc.assert(
      fc.asyncProperty(bodies, secrets, fc.constantFrom(...encodings), async (bytes, key, encoding) => {
        const expected = createHmac('sha256', key).update(bytes).digest(encoding);
        expect(await sign(bytes, { secret: key, encoding })).toBe(expected);
      }),
    );
  });

  test('keeps the case of RFC 4231, test 2', async () => {
    const mac = await sign(utf8('what do ya want for nothing?'), { secret: 'Jefe' });
    expect(mac).toBe('5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843');
  });

  test('writes a prefix in front', async () => {
    expect(await sign(body, { secret, prefix: 'sha256=' })).toMatch(/^sha256=[0-9a-f]{64}$/);
  });
});

describe('verifySignature', () => {
  test('accepts what sign made, in every encoding, pinned or told by its length', async () => {
    await fc.assert(
      fc.asyncProperty(bodies, secrets, fc.constantFrom(...encodings), async (bytes, key, encoding) => {
        const signature = await sign(bytes, { secret: key, encoding });
        expect(await verifySignature(bytes, signature, { secret: key })).toBe(true);
        expect(await verifySignature(bytes, signature, { secret: key, encoding })).toBe(true);
      }),
    );
  });

  test('refuses a body, a secret or a signature that differs in one bit', async () => {
    const bit = fc.nat({ max: 7 });
    await fc.assert(
      fc.asyncProperty(
        fc.uint8Array({ minLength: 1, maxLength: 99 }),
        fc.nat(),
        bit,
        async (bytes, at, shift) => {
          const signature = await sign(bytes, { secret });
          const flipped = bytes.slice();
          flipped[at % bytes.length] = (flipped[at % bytes.length] ?? 0) ^ (1 << shift);
          expect(await verifySignature(flipped, signature, { secret })).toBe(false);
          const mac = Buffer.from(signature, 'hex');
          mac[at % 32] = (mac[at % 32] ?? 0) ^ (1 << shift);
          expect(await verifySignature(bytes, mac.toString('hex'), { secret })).toBe(false);
          expect(await verifySignature(bytes, signature, { secret: `${secret}x` })).toBe(false);
        },
      ),
    );
  });

  test('refuses any other text', async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: 'binary', maxLength: 100 }), async (text) => {
        expect(await verifySignature(body, text, { secret })).toBe(false);
      }),
    );
  });

  test.each([
    ['nothing', () => undefined],
    ['null', () => null],
    ['an empty header', () => ''],
    ['one digit too few', (hex: string) => hex.slice(1)],
    ['one digit too many', (hex: string) => `${hex}0`],
    ['junk between the digits', (hex: string) => `${hex.slice(0, 2)} ${hex.slice(2)}`],
    ['junk in place of a digit', (hex: string) => `${hex.slice(0, 63)}g`],
    ['a blank in front', (hex: string) => ` ${hex}`],
    ['a line end behind', (hex: string) => `${hex}\n`],
    ['the header twice', (hex: string) => `${hex}, ${hex}`],
    ['digits that are not ASCII', (hex: string) => `${hex.slice(0, 62)}００`],
    ['a prefix that was not configured', (hex: string) => `sha256=${hex}`],
  ])('refuses %s', async (_name, change) => {
    expect(await verifySignature(body, change(await sign(body, { secret })), { secret })).toBe(false);
  });

  test('refuses base64 whose spare bits are not zero, and padding in the wrong place', async () => {
    const base64 = await sign(body, { secret, encoding: 'base64' });
    const digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
    const twin = `${base64.slice(0, 42)}${digits[digits.indexOf(base64[42] ?? '') + 1]}=`;
    expect(Buffer.from(twin, 'base64')).toEqual(Buffer.from(base64, 'base64'));
    expect(await verifySignature(body, twin, { secret })).toBe(false);
    expect(await verifySignature(body, `${base64}=`, { secret })).toBe(false);
    expect(await verifySignature(body, base64.slice(0, -1), { secret })).toBe(true);
  });

  test('accepts upper-case hex', async () => {
    expect(await verifySignature(body, (await sign(body, { secret })).toUpperCase(), { secret })).toBe(true);
  });

  test('pinned, refuses the other encodings', async () => {
    for (const encoding of encodings) {
      const signature = await sign(utf8('>>>???'), { secret: 'pin', encoding });
      for (const pinned of encodings) {
        const same = pinned === encoding;
        const verdict = await verifySignature(utf8('>>>???'), signature, { secret: 'pin', encoding: pinned });
        if (same || encoding === 'hex' || pinned === 'hex') expect(verdict).toBe(same);
      }
    }
  });

  test('wants the configured prefix', async () => {
    const signature = await sign(body, { secret, prefix: 'sha256=' });
    expect(await verifySignature(body, signature, { secret, prefix: 'sha256=' })).toBe(true);
    expect(await verifySignature(body, signature.slice(7), { secret, prefix: 'sha256=' })).toBe(false);
  });

  test('tries every secret while they rotate', async () => {
    const signature = await sign(body, { secret: 'new' });
    expect(await verifySignature(body, signature, { secret: ['old', 'new'] })).toBe(true);
    expect(await verifySignature(body, signature, { secret: ['new', 'old'] })).toBe(true);
    expect(await verifySignature(body, signature, { secret: ['old', utf8('older')] })).toBe(false);
  });

  test('does not take invalid bytes for the text that replaces them', async () => {
    const replaced = await sign(utf8('{"id":"\ufffd"}'), { secret });
    const invalid = Uint8Array.of(...utf8('{"id":"'), 0xff, ...utf8('"}'));
    expect(await verifySignature(invalid, replaced, { secret })).toBe(false);
  });

  test('judges the view, not the buffer behind it', async () => {
    const pool = utf8('xxxx{"id":"evt_1"}yyyy');
    const view = pool.subarray(4, 4 + body.length);
    expect(await verifySignature(view, await sign(body, { secret }), { secret })).toBe(true);
  });
});

describe('wrong wiring throws ERR_CONFIG_INVALID', () => {
  const given = async (secret: unknown, bytes: unknown = body) =>
    verifySignature(bytes as Uint8Array, '0'.repeat(64), { secret: secret as string });

  test.each([
    ['an empty secret', ''],
    ['no secret', undefined],
    ['no secret in the list', []],
    ['an empty secret in the list', ['good', '']],
    ['an empty list of bytes', new Uint8Array()],
    ['a number', 7],
    ['a secret with a line end', 'whsec_test\n'],
  ])('%s', async (_name, wrong) => {
    await expect(given(wrong)).rejects.toThrow(ConfigError);
    await expect(given(wrong)).rejects.toMatchObject({ code: 'ERR_CONFIG_INVALID' });
  });

  test.each([
    ['text', '{}'],
    ['an object', {}],
    ['nothing', undefined],
  ])('%s in place of the bytes', async (_name, wrong) => {
    await expect(given(secret, wrong ?? null)).rejects.toThrow(/raw bytes/);
    await expect(sign(wrong as unknown as Uint8Array, { secret })).rejects.toThrow(/raw bytes/);
  });

  test('and never shows the secret', async () => {
    const shown = await given('whsec_shown_nowhere ').catch((error: Error) => `${error.stack}`);
    expect(shown).toContain('white space');
    expect(shown).not.toContain('whsec_shown_nowhere');
  });
});
