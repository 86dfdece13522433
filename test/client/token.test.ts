/** Errors hold no part of a token that the service echoes. */
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
