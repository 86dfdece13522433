import { ConfigError, StablehooksError } from '../core/errors.js';

/** The token, or a function that returns it. The function is called for every attempt and can cache its result. */
export type TokenSource = string | (() => string | Promise<string>);

/** Completes the sentence "the token must be …". */
export const TOKEN = 'printable ASCII without spaces and without a leading `Bearer`';

/** Given an invalid token, `fetch` would throw an error that quotes the token. */
export function isToken(token: unknown): boolean {
  return typeof token === 'string' && /^[\x21-\x7e]+$/.test(token);
}

export async function readToken(source: TokenSource): Promise<string> {
  if (typeof source === 'string') return source;
  let token: string;
  try {
    token = await source();
  } catch (cause) {
    throw new StablehooksError(
      'ERR_SECRET_UNAVAILABLE',
      'The `token` function failed, so this attempt sent no request; see the cause. Check where the function reads the token.',
      { cause },
    );
  }
  if (isToken(token)) return token;
  throw new ConfigError(`createClient: \`token\` must return ${TOKEN}. Check its source for white space.`);
}

/** Some services repeat the request headers in their error responses. */
export function redact(text: string, token: string): string {
  return text.replaceAll(token, '[token]');
}
