/** The bearer token: who gives it, and how it is kept out of everything that a caller can see. */
import { ConfigError, UnavailableError } from '../core/errors.js';

/**
 * The token, or a function that is asked at every attempt (and keeps what it fetched as long as it likes).
 * After a 401 it is asked once more, with `renew` true: what it gave before is no longer good.
 */
export type TokenSource = string | ((options: { readonly renew: boolean }) => string | Promise<string>);

/** Checks a token: `fetch` would quote one that no header can carry in its error. */
export function toToken(token: string): string {
  if (typeof token === 'string' && /^[\x21-\x7e]+$/.test(token)) return token;
  throw new ConfigError(
    'The token must be visible ASCII without spaces, and without `Bearer` in front. Is the variable that holds it set, and trimmed?',
  );
}

/** Asks for the token. */
export async function askToken(source: TokenSource, { renew }: { readonly renew: boolean }): Promise<string> {
  if (typeof source !== 'function') return source;
  let token: string;
  try {
    token = await source({ renew });
  } catch (cause) {
    throw new UnavailableError(
      'ERR_SECRET_UNAVAILABLE',
      'The function given as `token` failed, so nothing was sent. Check where it gets the token.',
      { cause },
    );
  }
  return toToken(token);
}

/** Takes the token out of text that came from outside: debug pages echo the headers of a request. */
export function redact(text: string, token: string): string {
  return text.replaceAll(token, '[token]');
}

/** Copies the words of an error: errors of `fetch` wrappers carry the whole request, and so the token. */
export function quoteCause(cause: unknown, token: string): Error {
  if (!(cause instanceof Error)) return new Error(redact(String(cause), token));
  const inner = cause.cause === undefined ? undefined : { cause: quoteCause(cause.cause, token) };
  const copy = new Error(redact(cause.message, token), inner);
  copy.name = redact(cause.name, token);
  copy.stack = redact(cause.stack ?? '', token);
  return 'code' in cause ? Object.assign(copy, { code: redact(String(cause.code), token) }) : copy;
}
