import fc from 'fast-check';
import { ConfigError, type SignatureEncoding, SignatureError, sign, verifySignature } from 'stablehooks';
import { describe, expect, test } from 'vitest';

const secret = 'whsec_test';
const utf8 = (text: string) => new TextEncoder().encode(text);
const body = utf8('{"id":"evt_1"}');
const encodings: readonly SignatureEncoding[] = ['hex', 'base64', 'base64url'];
const bodies = fc.uint8Array({ maxLength: 4_096 });
const secrets = fc
  .uint8Array({ minLength: 1, maxLength: 200 })
  .filter((bytes) => bytes.some((byte) => byte !== 0));

/** Whether verifySignature resolves; it must reject with a SignatureError otherwise. */
async function accepts(
  bytes: Uint8Array,
  signature: string | null | undefined,
  options: Parameters<typeof verifySignature>[2],
): Promise<boolean> {
  try {
    await verifySignature(bytes, signature, options);
    return true;
  } catch (error) {
    if (error instanceof SignatureError) return false;
    throw error;
  }
}

describe('verifySignature', () => {
  test('verifySignature accepts what sign made, with and without a pinned encoding', async () => {
    await fc.assert(
      fc.asyncProperty(bodies, secrets, fc.constantFrom(...encodings), async (bytes, key, encoding) => {
        const signature = await sign(bytes, { secret: key, encoding });
        expect(await accepts(bytes, signature, { secret: key })).toBe(true);
        expect(await accepts(bytes, signature, { secret: key, encoding })).toBe(true);
      }),
    );
  });

  test('verifySignature refuses a body, a secret or a signature that differs in one bit', async () => {
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
          expect(await accepts(flipped, signature, { secret })).toBe(false);
          const mac = Buffer.from(signature, 'hex');
          mac[at % 32] = (mac[at % 32] ?? 0) ^ (1 << shift);
          expect(await accepts(bytes, mac.toString('hex'), { secret })).toBe(false);
          expect(await accepts(bytes, signature, { secret: `${secret}x` })).toBe(false);
        },
      ),
    );
  });

  test('verifySignature refuses any other string', async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: 'binary', maxLength: 100 }), async (text) => {
        expect(await accepts(body, text, { secret })).toBe(false);
      }),
    );
  });

  test('verifySignature names what is wrong with a signature by its code', async () => {
    const codeOf = (signature: string | null | undefined) =>
      verifySignature(body, signature, { secret }).catch(({ code }) => code);
    expect(await codeOf(undefined)).toBe('ERR_SIGNATURE_MISSING');
    expect(await codeOf(null)).toBe('ERR_SIGNATURE_MISSING');
    expect(await codeOf('abc')).toBe('ERR_SIGNATURE_MALFORMED');
    expect(await codeOf('0'.repeat(64))).toBe('ERR_SIGNATURE_MISMATCH');
  });

  test('the message of a refused signature names the header, the expected encoding and what the secret function did', async () => {
    const messageOf = (
      signature: string | null,
      options: Partial<Parameters<typeof verifySignature>[2]> = {},
    ) =>
      verifySignature(body, signature, { secret, header: 'X-Acme', ...options }).catch(
        ({ message }) => message,
      );
    expect(await messageOf(null)).toContain('no X-Acme header');
    expect(await messageOf('abc')).toContain('X-Acme header is not a 32-byte signature in hex or base64');
    expect(await messageOf('abc', { encoding: 'base64url' })).toContain(
      'is not a 32-byte signature in base64url',
    );
    const signature = '0'.repeat(64);
    expect(await messageOf(signature, { secret: () => null })).toContain('returned null');
    expect(await messageOf(signature, { secret: () => Promise.reject(new Error()) })).toContain(
      'see the cause',
    );
  });

  test('verifySignature resolves to the body and the index of the secret that matched', async () => {
    const signature = await sign(body, { secret: 'new' });
    const options = { secret: ['old', 'new', utf8('other')] };
    expect(await verifySignature(body, signature, options)).toEqual({ body, secretIndex: 1 });
  });

  test('verifySignature rejects with ERR_SECRET_UNKNOWN when a function gives null, also if the body is signed, and with ERR_CONFIG_INVALID for null itself', async () => {
    for (const key of [secret, 'decoy']) {
      const signature = await sign(body, { secret: key });
      const unknown = verifySignature(body, signature, { secret: async () => null });
      await expect(unknown).rejects.toMatchObject({ name: 'SignatureError', code: 'ERR_SECRET_UNKNOWN' });
      const missing = verifySignature(body, signature, { secret: null as never });
      await expect(missing).rejects.toMatchObject({ code: 'ERR_CONFIG_INVALID' });
    }
  });

  test('verifySignature calls a function that gives the secret, and rejects with ERR_SECRET_UNAVAILABLE when it fails', async () => {
    const signature = await sign(body, { secret });
    expect(await accepts(body, signature, { secret: async () => ['other', secret] })).toBe(true);
    const failing = verifySignature(body, signature, { secret: () => Promise.reject(new Error('down')) });
    await expect(failing).rejects.toMatchObject({ code: 'ERR_SECRET_UNAVAILABLE' });
  });

  test('verifySignature refuses a header of 8 MB in every encoding', async () => {
    for (const encoding of [undefined, ...encodings]) {
      expect(await accepts(body, 'A'.repeat(8_000_000), { secret, encoding })).toBe(false);
    }
  });

  test('verifySignature refuses base64 whose spare bits are not zero, and wrong padding', async () => {
    const base64 = await sign(body, { secret, encoding: 'base64' });
    const digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
    const twin = `${base64.slice(0, 42)}${digits[digits.indexOf(base64[42] ?? '') + 1]}=`;
    expect(Buffer.from(twin, 'base64')).toEqual(Buffer.from(base64, 'base64'));
    expect(await accepts(body, twin, { secret })).toBe(false);
    expect(await accepts(body, `${base64}=`, { secret })).toBe(false);
    expect(await accepts(body, base64.slice(0, -1), { secret })).toBe(true);
  });

  test.each<[string, (right: string) => unknown]>([
    ['a list with the right signature', (right) => [right]],
    ['an object', (right) => ({ toString: () => right })],
    ['a String object', (right) => new String(right)],
    ['a number', () => 7],
  ])('verifySignature refuses %s in place of a header value as malformed', async (_name, change) => {
    const value = change(await sign(body, { secret })) as string;
    for (const format of [{}, { prefix: 'sha256=' }, { encoding: 'hex' }] as const) {
      await expect(verifySignature(body, value, { secret, ...format })).rejects.toMatchObject({
        name: 'SignatureError',
        code: 'ERR_SIGNATURE_MALFORMED',
      });
    }
  });

  test("verifySignature takes Node's type of a header, whose lists it refuses", async () => {
    const headers: NodeJS.Dict<string | string[]> = { 'x-service-signature': await sign(body, { secret }) };
    expect((await verifySignature(body, headers['x-service-signature'], { secret })).secretIndex).toBe(0);
  });

  test('verifySignature refuses the right signature with anything before or after it as malformed', async () => {
    for (const encoding of encodings) {
      const right = await sign(body, { secret, encoding });
      for (const wrong of [`A${right}`, ` ${right}`, `${right}A`, `${right} `, `${right}=`, `${right}\n`]) {
        for (const pinned of [undefined, encoding]) {
          // Padding is optional, but nothing can be added to it.
          if (encoding === 'base64url' && wrong === `${right}=`) continue;
          await expect(verifySignature(body, wrong, { secret, encoding: pinned })).rejects.toMatchObject({
            code: 'ERR_SIGNATURE_MALFORMED',
          });
        }
      }
    }
  });

  test.each<[string, (right: string) => readonly string[]]>([
    ['base64 of 31 bytes', () => ['', '=', '=='].map((padding) => 'A'.repeat(42) + padding)],
    [
      '43 characters that are not base64',
      () => ['!', 'é', '\u{1f4b6}', '\0'].map((odd) => 'A'.repeat(43 - odd.length) + odd),
    ],
    [
      'characters whose low byte is a hex digit, or that are none',
      (right) => {
        const aliases = [...right].map((digit) => String.fromCharCode(digit.charCodeAt(0) + 0x100));
        return [aliases.join(''), `${aliases[0]}${right.slice(1)}`, `${right.slice(0, 63)}g`];
      },
    ],
  ])('verifySignature refuses %s as malformed', async (_, toWrong) => {
    for (const wrong of toWrong(await sign(body, { secret }))) {
      for (const encoding of [undefined, ...encodings]) {
        await expect(verifySignature(body, wrong, { secret, encoding })).rejects.toMatchObject({
          code: 'ERR_SIGNATURE_MALFORMED',
        });
      }
    }
  });

  test('verifySignature accepts upper-case hex', async () => {
    expect(await accepts(body, (await sign(body, { secret })).toUpperCase(), { secret })).toBe(true);
  });

  test('verifySignature with a pinned encoding refuses the others', async () => {
    for (const encoding of encodings) {
      const signature = await sign(utf8('>>>???'), { secret: 'pin', encoding });
      for (const pinned of encodings) {
        const same = pinned === encoding;
        const verdict = await accepts(utf8('>>>???'), signature, { secret: 'pin', encoding: pinned });
        if (same || encoding === 'hex' || pinned === 'hex') expect(verdict).toBe(same);
      }
    }
  });

  test('verifySignature refuses a signature without the configured prefix', async () => {
    const signature = await sign(body, { secret, prefix: 'sha256=' });
    expect(signature).toMatch(/^sha256=[0-9a-f]{64}$/);
    expect(await accepts(body, signature, { secret, prefix: 'sha256=' })).toBe(true);
    expect(await accepts(body, signature.slice(7), { secret, prefix: 'sha256=' })).toBe(false);
  });
});

describe('wrong arguments', () => {
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
    ['bytes of zeros, which are the empty key', new Uint8Array(32)],
    ['a text of zeros', '\0\0'],
    ['only holes', new Array(2)],
    ['a hole after a secret', Object.assign(new Array(2), { 0: 'good' })],
    ['a hole where a secret was', Object.assign(new Array(2), { 1: 'good' })],
  ])('verifySignature throws ERR_CONFIG_INVALID for %s', async (_name, wrong) => {
    await expect(given(wrong)).rejects.toThrow(ConfigError);
    await expect(given(wrong)).rejects.toMatchObject({ code: 'ERR_CONFIG_INVALID' });
  });

  test.each([
    ['a string', '{}'],
    ['an object', {}],
    ['nothing', undefined],
  ])('sign and verifySignature refuse %s instead of bytes', async (_name, wrong) => {
    await expect(given(secret, wrong ?? null)).rejects.toThrow(/raw bytes/);
    await expect(sign(wrong as unknown as Uint8Array, { secret })).rejects.toThrow(/raw bytes/);
  });

  test('an error about a secret does not show the secret', async () => {
    const shown = await given('whsec_shown_nowhere ').catch((error: Error) => `${error.stack}`);
    expect(shown).toContain('white space');
    expect(shown).not.toContain('whsec_shown_nowhere');
  });
});
