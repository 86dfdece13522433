import { createHmac } from 'node:crypto';
import fc from 'fast-check';
import { ConfigError, type SignatureEncoding, SignatureError, sign, verifySignature } from 'stablehooks';
import { exampleEvent, signedRequest } from 'stablehooks/testing';
import { describe, expect, test } from 'vitest';

const secret = 'whsec_test';
const utf8 = (text: string) => new TextEncoder().encode(text);
const body = utf8('{"id":"evt_1"}');
const encodings: readonly SignatureEncoding[] = ['hex', 'base64', 'base64url'];
const bodies = fc.uint8Array({ maxLength: 4_096 });
const secrets = fc.uint8Array({ minLength: 1, maxLength: 200 });

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

describe('sign', () => {
  test('sign computes the HMAC-SHA256 of node:crypto over the bytes, in every encoding', async () => {
    await fc.assert(
      fc.asyncProperty(bodies, secrets, fc.constantFrom(...encodings), async (bytes, key, encoding) => {
        const expected = createHmac('sha256', key).update(bytes).digest(encoding);
        expect(await sign(bytes, { secret: key, encoding })).toBe(expected);
      }),
    );
  });

  test('sign reproduces test case 2 of RFC 4231', async () => {
    const mac = await sign(utf8('what do ya want for nothing?'), { secret: 'Jefe' });
    expect(mac).toBe('5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843');
  });

  test('sign writes the prefix before the digits', async () => {
    expect(await sign(body, { secret, prefix: 'sha256=' })).toMatch(/^sha256=[0-9a-f]{64}$/);
  });
});

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

  test('verifySignature resolves to the body and the index of the secret that matched', async () => {
    const signature = await sign(body, { secret: 'new' });
    const options = { secret: ['old', 'new', utf8('other')] };
    expect(await verifySignature(body, signature, options)).toEqual({ body, secretIndex: 1 });
  });

  test('verifySignature reads a body that is given as a function only for a well-formed signature', async () => {
    let reads = 0;
    const read = async () => {
      reads += 1;
      return body;
    };
    for (const bad of [undefined, '', 'abc']) {
      await expect(verifySignature(read, bad, { secret })).rejects.toThrow(SignatureError);
    }
    expect(reads).toBe(0);
    const signature = await sign(body, { secret });
    expect((await verifySignature(read, signature, { secret })).body).toBe(body);
    expect(reads).toBe(1);
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

  test.each([
    ['nothing', () => undefined],
    ['null', () => null],
    ['an empty header', () => ''],
    ['one digit too few', (hex: string) => hex.slice(1)],
    ['one digit too many', (hex: string) => `${hex}0`],
    ['junk between the digits', (hex: string) => `${hex.slice(0, 2)} ${hex.slice(2)}`],
    ['junk in place of a digit', (hex: string) => `${hex.slice(0, 63)}g`],
    ['a space before the digits', (hex: string) => ` ${hex}`],
    ['a line end after the digits', (hex: string) => `${hex}\n`],
    ['the header twice', (hex: string) => `${hex}, ${hex}`],
    ['digits that are not ASCII', (hex: string) => `${hex.slice(0, 62)}００`],
    ['a prefix that was not configured', (hex: string) => `sha256=${hex}`],
  ])('verifySignature refuses %s', async (_name, change) => {
    expect(await accepts(body, change(await sign(body, { secret })), { secret })).toBe(false);
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
    ['a list of two', (right) => [right, right]],
    ['an empty list', () => []],
    ['an object', (right) => ({ toString: () => right })],
    ['a String object', (right) => new String(right)],
    ['bytes', (right) => new TextEncoder().encode(right)],
    ['a number', () => 7],
    ['zero', () => 0],
    ['false', () => false],
    ['true', () => true],
    ['a symbol', () => Symbol('signature')],
    ['a function', (right) => () => right],
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

  test('verifySignature refuses base64 of 31 bytes, whatever its padding, as malformed', async () => {
    for (const encoding of [undefined, 'base64', 'base64url'] as const) {
      for (const short of [`${'A'.repeat(42)}=`, `${'A'.repeat(42)}==`, 'A'.repeat(42)]) {
        await expect(verifySignature(body, short, { secret, encoding })).rejects.toMatchObject({
          code: 'ERR_SIGNATURE_MALFORMED',
        });
      }
    }
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

  test('verifySignature refuses 43 characters that are not base64 as malformed', async () => {
    for (const character of ['!', 'é', '\u{1f4b6}', '\0']) {
      const digits = `${'A'.repeat(43 - character.length)}${character}`;
      for (const encoding of [undefined, 'base64', 'base64url'] as const) {
        await expect(verifySignature(body, digits, { secret, encoding })).rejects.toMatchObject({
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
    expect(await accepts(body, signature, { secret, prefix: 'sha256=' })).toBe(true);
    expect(await accepts(body, signature.slice(7), { secret, prefix: 'sha256=' })).toBe(false);
  });

  test('verifySignature tries every secret', async () => {
    const signature = await sign(body, { secret: 'new' });
    expect(await accepts(body, signature, { secret: ['old', 'new'] })).toBe(true);
    expect(await accepts(body, signature, { secret: ['new', 'old'] })).toBe(true);
    expect(await accepts(body, signature, { secret: ['old', utf8('older')] })).toBe(false);
  });

  test('verifySignature does not confuse invalid UTF-8 with its replacement characters', async () => {
    const replaced = await sign(utf8('{"id":"\ufffd"}'), { secret });
    const invalid = Uint8Array.of(...utf8('{"id":"'), 0xff, ...utf8('"}'));
    expect(await accepts(invalid, replaced, { secret })).toBe(false);
  });

  test('verifySignature reads a view, not the buffer behind it', async () => {
    const pool = utf8('xxxx{"id":"evt_1"}yyyy');
    const view = pool.subarray(4, 4 + body.length);
    expect(await accepts(view, await sign(body, { secret }), { secret })).toBe(true);
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

  test('verifySignature refuses a body function that resolves to a string', async () => {
    const signature = await sign(body, { secret });
    const read = async () => '{"id":"evt_1"}' as unknown as Uint8Array;
    await expect(verifySignature(read, signature, { secret })).rejects.toThrow(/raw bytes/);
  });

  test.each<[string, Readonly<Record<string, unknown>>, RegExp]>([
    ['the encoding HEX', { encoding: 'HEX' }, /`encoding` must be one of hex, base64, base64url/],
    ['the encoding Base64', { encoding: 'Base64' }, /`encoding` must be one of/],
    ['an empty encoding', { encoding: '' }, /`encoding` must be one of/],
    ['null as encoding', { encoding: null }, /`encoding` must be one of/],
    ['a list as encoding', { encoding: ['hex'] }, /`encoding` must be one of/],
    ['a number as prefix', { prefix: 7 }, /`prefix` must be a string/],
    ['null as prefix', { prefix: null }, /`prefix` must be a string/],
    ['a pattern as prefix', { prefix: /sha256=/ }, /`prefix` must be a string/],
  ])('sign and verifySignature throw ERR_CONFIG_INVALID for %s', async (_name, wrong, message) => {
    const signing = sign(body, { secret, ...wrong });
    await expect(signing).rejects.toThrow(ConfigError);
    await expect(signing).rejects.toThrow(message);
    const right = await sign(body, { secret });
    for (const signature of [right, `7${right}`, undefined]) {
      await expect(verifySignature(body, signature, { secret, ...wrong })).rejects.toThrow(message);
    }
  });

  test.each([[''], [7], [null]])(
    'verifySignature throws ERR_CONFIG_INVALID for the header name %j',
    async (header) => {
      const options = { secret, header: header as string };
      await expect(verifySignature(body, undefined, options)).rejects.toThrow(/`header` must be the name/);
    },
  );

  test.each<[string, Readonly<Record<string, unknown>>, RegExp]>([
    ['the encoding HEX', { encoding: 'HEX' }, /`encoding` must be one of/],
    ['a number as prefix', { prefix: 7 }, /`prefix` must be a string/],
    ['an empty header name', { header: '' }, /`header` must be a string that is not empty/],
  ])('signedRequest throws ERR_CONFIG_INVALID for %s', async (_name, wrong, message) => {
    const request = signedRequest(exampleEvent('transfer.settled'), { secret, ...wrong });
    await expect(request).rejects.toThrow(ConfigError);
    await expect(request).rejects.toThrow(message);
  });

  test('an error about a secret does not show the secret', async () => {
    const shown = await given('whsec_shown_nowhere ').catch((error: Error) => `${error.stack}`);
    expect(shown).toContain('white space');
    expect(shown).not.toContain('whsec_shown_nowhere');
  });
});
