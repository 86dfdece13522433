/** Errors hold no part of a token that the service echoes. */
import { inspect } from 'node:util';
import { ApiError, createClient, ResponseError } from 'stablehooks/client';
import { expect, test } from 'vitest';

const WALLET = {
  agentId: 'agent',
  label: 'main',
  chain: 'base',
  limits: { perTx: '10.50', daily: '100' },
  allowlist: [],
} as const;

/** What the error of a call keeps of an answer. */
async function kept(body: string, { token, status, maxBodyBytes }: Kept): Promise<unknown> {
  const client = createClient({
    baseUrl: 'http://service.test',
    token,
    maxBodyBytes,
    fetch: async () => new Response(body, { status }),
  });
  const error: unknown = await client.wallets.create(WALLET).catch((thrown: unknown) => thrown);
  if (error instanceof ApiError) return error.body;
  if (error instanceof ResponseError) return error.answer;
  throw error;
}

interface Kept {
  readonly token: string;
  readonly status: number;
  readonly maxBodyBytes?: number;
}

test('no part of a token that is echoed where the body is cut is on the error', async () => {
  // Longer than what takes its place, which could be cut, too.
  const token = 'ZQ/9+tok==';
  for (const maxBodyBytes of [65_536, 1_000]) {
    for (let before = 0; before <= token.length; before++) {
      const body = `${'x'.repeat(maxBodyBytes - before)}${token}${'x'.repeat(maxBodyBytes)}`;
      expect(await kept(body, { token, status: 400, maxBodyBytes })).toMatch(/^x+(?:\[token\]x*)?$/);
      expect(await kept(body, { token, status: 201, maxBodyBytes })).toMatch(/^x+(?:\[token\])?$/);
    }
  }
});

test('an echoed token is redacted where JSON, HTML or a URL escapes it', async () => {
  const token = 'a+b/c=&"d';
  const forms = [
    'a\\u002bb\\/c\\u003D\\u0026\\"d',
    'a&#43;b&#x2F;c&#x3d;&amp;&quot;d',
    'a&#043;b&#X2f;c=&#38;&#34;d',
    'a%2Bb%2fc%3D%26%22d',
  ];
  expect(await kept(forms.join(' | '), { token, status: 400 })).toBe('[token] | [token] | [token] | [token]');
});

/** A token as a large JWT is: of letters, digits and dots, without a period. */
const longToken = (length: number) => {
  let state = 1;
  const next = () => {
    state = (state * 48_271) % 2_147_483_647;
    return 'eyJhbGciOi.0123-_/+='.charAt(state % 20);
  };
  return Array.from({ length }, next).join('');
};

test.each([1_000, 5_000, 20_000])(
  'every error of a call with a token of %i characters is what it is with a short one, and holds no part of the token',
  async (length) => {
    const token = longToken(length);
    const escaped = token.replaceAll('/', '\\/').replaceAll('+', '&#43;').replaceAll('=', '%3D');
    expect(await kept(`no: ${token} | ${escaped}`, { token, status: 400 })).toBe('no: [token] | [token]');
    expect(await kept(JSON.stringify({ token }), { token, status: 201 })).toEqual({ token: '[token]' });

    const client = createClient({
      baseUrl: 'http://service.test',
      token,
      retries: 0,
      fetch: async () => {
        throw new TypeError(`cannot send ${token}`, { cause: new Error(`Bearer ${token}`) });
      },
    });
    const error: unknown = await client.events.list().catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({
      code: 'ERR_API_CONNECTION',
      cause: { message: 'cannot send [token]', cause: { message: 'Bearer [token]' } },
    });
    expect(inspect(error, { depth: null, showHidden: true })).not.toContain(token.slice(0, 100));
  },
);

test('a token of every character that a header can contain is redacted, in each of its forms', async () => {
  const token = String.fromCharCode(...Array.from({ length: 0x7e - 0x20 }, (_, index) => 0x21 + index));
  const hex = (character: string) => character.charCodeAt(0).toString(16);
  const forms = [
    JSON.stringify(token).slice(1, -1),
    encodeURIComponent(token),
    token.replaceAll(/./g, (character) => `\\u00${hex(character)}`),
    token.replaceAll(/./g, (character) => `%${hex(character).toUpperCase()}`),
    token.replaceAll(/./g, (character) => `&#0${character.charCodeAt(0)};`),
    token.replaceAll(/./g, (character) => `&#x${hex(character)};`),
    token.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;'),
  ];
  for (const form of [token, ...forms]) {
    expect(await kept(`(${form})`, { token, status: 400 }), form).toBe('([token])');
  }
});

test.each(['\\\\u0041', '%25%41', '&amp;&', '\\\\\\\\'])(
  'the token %s is redacted as it is and escaped, although it looks like an escape itself',
  async (token) => {
    const forms = [token, JSON.stringify(token).slice(1, -1), encodeURIComponent(token)];
    expect(await kept(forms.join(' | '), { token, status: 400 })).toBe('[token] | [token] | [token]');
  },
);

test('a token of long forms that begins just before the cut leaves no part of itself', async () => {
  const token = '~~~~~~~~~~';
  const form = '&#0126;'.repeat(token.length);
  for (let before = 0; before <= form.length; before++) {
    const body = `${'x'.repeat(65_536 - before)}${form}`;
    expect(await kept(body, { token, status: 400 })).toMatch(/^x+(?:\[token\])?$/);
  }
});
