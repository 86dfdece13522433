/** Drivers accept URLs that `URL` rejects, such as `postgres://user:password@/db?host=/dir`. */
const URL_IN_TEXT = /(?:[a-z][a-z\d+.-]*:\/|(?:postgres(?:ql)?|mysql|mariadb|rediss?):).*/is;

const SECRETS = /pass(word|wd|phrase)|pwd|secret|token/i;

export function hasPassword(text: string): boolean {
  const [url] = URL_IN_TEXT.exec(text) ?? [];
  // A URL that cannot be parsed can contain a password anywhere.
  return url !== undefined && (passwordsIn(url).length > 0 || !URL.canParse(url));
}

/** Returns the parts of the URL that must not be printed. */
export function confidentialParts(url: string): readonly string[] {
  if (!hasPassword(url)) return [];
  const passwords = passwordsIn(url);
  return [url, `?${queryOf(url)}`, ...passwords, ...passwords.map(decode)];
}

/** Candidates are the text between the user name and each `@`, and the values of secret parameters. */
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

/** Leaves out the query, because it can contain a token. */
export function nameEndpoint(url: string): string {
  return url.replace(/[?#].*$/s, (query) => (query.startsWith('?') ? '?…' : ''));
}

/** Leaves out the query of a URL. */
export function namePlace(place: string): string {
  return URL_IN_TEXT.test(place) ? place.replace(/[?#].*$/s, '') : place;
}
