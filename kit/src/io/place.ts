/**
 * The URL in a text, from its scheme to the end of the text. The schemes of inboxes need no slash.
 *
 * It is read as text here, because drivers accept URLs that `URL` refuses: Postgres has `postgres://user:password@/db?host=/dir`.
 */
const URL_IN_TEXT = /(?:[a-z][a-z\d+.-]*:\/|(?:postgres(?:ql)?|rediss?):).*/is;

/** Names of parameters that hold a secret. */
const SECRETS = /pass(word|wd|phrase)|pwd|secret|token/i;

/** Whether a text, such as the place or the name of an inbox, has a URL that holds a password or cannot be read. */
export function hasPassword(text: string): boolean {
  const [url] = URL_IN_TEXT.exec(text) ?? [];
  // What cannot be read can hold one anywhere.
  return url !== undefined && (passwordsIn(url).length > 0 || !URL.canParse(url));
}

/** The parts of the URL of an inbox that nothing may print: all of it if it cannot be read. */
export function confidentialParts(url: string): readonly string[] {
  if (!hasPassword(url)) return [];
  const passwords = passwordsIn(url);
  return [url, `?${queryOf(url)}`, ...passwords, ...passwords.map(decode)];
}

/** What is or can be a password in a URL: of the user, up to each `@`, or of a parameter. */
function passwordsIn(url: string): readonly string[] {
  const [, afterUser = ''] = /^[^:]*:\/*[^:]*:(.*)/s.exec(url) ?? [];
  const ofUser = [...afterUser.matchAll(/@/g)].map(({ index }) => afterUser.slice(0, index));
  const ofParameters = queryOf(url)
    .split('&')
    .flatMap((pair) => {
      const [[name, value] = ['', '']] = new URLSearchParams(pair);
      return SECRETS.test(name) ? [pair.slice(pair.indexOf('=') + 1), value] : [];
    });
  return [...ofUser, ...ofParameters];
}

function queryOf(url: string): string {
  return /\?([^#]*)/.exec(url)?.[1] ?? '';
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** What people read of the URL of an endpoint: its query can hold a token. */
export function nameEndpoint(url: string): string {
  return url.replace(/[?#].*$/s, (query) => (query.startsWith('?') ? '?…' : ''));
}

/** What people read of the place of an inbox: without the query of a URL. */
export function namePlace(place: string): string {
  return URL_IN_TEXT.test(place) ? place.replace(/[?#].*$/s, '') : place;
}
