import { ConfigError, StablehooksError } from '../core/errors.js';

/** The token, or a function that is called for every attempt and can cache its result. */
export type TokenSource = string | (() => string | Promise<string>);

/** Completes the sentence "the token must be …". */
export const TOKEN = 'visible ASCII without spaces and without `Bearer` in front';

/** Whether a header can contain the token. If not, the error of `fetch` would quote it. */
export function isToken(token: unknown): boolean {
  return typeof token === 'string' && /^[\x21-\x7e]+$/.test(token);
}

/** @throws {StablehooksError} `ERR_SECRET_UNAVAILABLE` when the function fails. */
export async function readToken(source: TokenSource): Promise<string> {
  if (typeof source === 'string') return source;
  let token: string;
  try {
    token = await source();
  } catch (cause) {
    throw new StablehooksError(
      'ERR_SECRET_UNAVAILABLE',
      'The function given as `token` failed, so nothing was sent in this attempt. Check where it reads the token.',
      { cause },
    );
  }
  if (isToken(token)) return token;
  throw new ConfigError(`createClient: \`token\` must return ${TOKEN}. Check that its source is trimmed.`);
}

/** Some services repeat request headers in their errors. */
export function redact(text: string, token: string): string {
  return text.replaceAll(token, '[token]');
}
