import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { parse as parseCookies } from 'hono/utils/cookie';
import { isFromOtherSite, isLoopback, readHost } from '../other-sites.js';

export interface Access {
  /** `remoteAddress` is `undefined` if the request did not come over a socket. */
  check(request: Request, remoteAddress: string | undefined): Promise<Refusal | undefined>;
  setCookie(request: Request, headers: Headers): void;
  /** Each action must send the returned token as `x-inspector-token`. This method may add a cookie to the headers. */
  actionToken(request: Request, headers: Headers): string;
}

export interface Refusal {
  readonly status: 400 | 401 | 403;
  readonly message: string;
}

/** Another origin would need a preflight request to send this header, and that request is refused. */
const ACTION_HEADER = 'x-inspector-token';

/** The value of this cookie must equal the token that an action sends. */
const ACTION_COOKIE = 'stablehooks_inspector_action';

/** The action token is stored only in a cookie, so every process of an app accepts the token. */
export function appAccess(authorize: (request: Request) => boolean | Promise<boolean>): Access {
  const readToken = (request: Request) => {
    const value = readCookie(request, ACTION_COOKIE);
    return value !== null && /^[\w-]{43}$/.test(value) ? value : undefined;
  };
  return {
    actionToken(request, headers) {
      // All tabs share the cookie, so they have the same token.
      const token = readToken(request) ?? createToken();
      // A cookie without a path belongs to the requested folder, even behind a proxy that changes paths.
      headers.append('set-cookie', `${ACTION_COOKIE}=${token}; HttpOnly; SameSite=Strict`);
      return token;
    },
    async check(request) {
      // Only `true` counts: a function that returns a user, or nothing by mistake, must not open the page.
      if ((await authorize(request)) !== true) {
        return { status: 403, message: 'The `authorize` function refused this request.' };
      }
      return checkOrigin(request) ?? checkAction(request, readToken(request));
    },
    setCookie: () => undefined,
  };
}

/** The page exchanges the token for a cookie, which is named after the port because cookies do not distinguish ports. */
export function tokenAccess(port: () => number): Access & { readonly token: string } {
  const [token, session, actionToken] = [createToken(), createToken(), createToken()];
  const cookieName = () => `stablehooks_inspector_${port()}`;
  return {
    token,
    actionToken: () => actionToken,
    async check(request, remoteAddress) {
      const refused = checkRemote(remoteAddress) ?? checkHost(request, port()) ?? checkOrigin(request);
      if (refused !== undefined) return refused;
      if (!isEqual(readCookie(request, cookieName()), session) && !hasToken(request, token)) {
        return { status: 401, message: 'Open the URL that the command printed. It contains the token.' };
      }
      return checkAction(request, actionToken);
    },
    setCookie(request, headers) {
      if (!hasToken(request, token)) return;
      headers.append('set-cookie', `${cookieName()}=${session}; Path=/; HttpOnly; SameSite=Strict`);
    },
  };
}

function hasToken(request: Request, token: string): boolean {
  return request.method === 'GET' && isEqual(new URL(request.url).searchParams.get('token'), token);
}

/** The server of a tool may listen on all interfaces for another purpose. */
function checkRemote(address: string | undefined): Refusal | undefined {
  if (address === undefined || /^(::ffff:)?127\.|^::1$/.test(address)) return undefined;
  return { status: 403, message: 'Only the machine that runs the command can open the inspector.' };
}

/** A name that resolves to this machine by DNS rebinding must not reach the page. */
function checkHost(request: Request, port: number): Refusal | undefined {
  const host = readHost(request);
  if (isLoopback(host.hostname) && host.port === port) return undefined;
  return { status: 403, message: `Open the inspector at http://127.0.0.1:${port}.` };
}

/** Other sites must neither act nor read, even with the cookies of the browser. */
function checkOrigin(request: Request): Refusal | undefined {
  return isFromOtherSite(request)
    ? { status: 403, message: 'This request comes from another site.' }
    : undefined;
}

function checkAction(request: Request, actionToken: string | undefined): Refusal | undefined {
  if (request.method === 'GET' || request.method === 'HEAD') return undefined;
  const given = request.headers.get(ACTION_HEADER);
  if (actionToken !== undefined && isEqual(given, actionToken)) return undefined;
  return { status: 403, message: `The header ${ACTION_HEADER} is missing or outdated. Reload the page.` };
}

function readCookie(request: Request, name: string): string | null {
  return parseCookies(request.headers.get('cookie') ?? '', name)[name] ?? null;
}

function createToken(): string {
  return randomBytes(32).toString('base64url');
}

/** Compares in constant time, even if the lengths are different. */
function isEqual(given: string | null, expected: string): boolean {
  const hash = (value: string) => createHash('sha256').update(value).digest();
  return given !== null && timingSafeEqual(hash(given), hash(expected));
}
