/** Whether the URL of an inbox holds a password: before its host, or in its query. */
export function hasPassword(place: string): boolean {
  if (!URL.canParse(place)) return false;
  const { password, searchParams } = new URL(place);
  return password !== '' || [...searchParams.keys()].some((name) => SECRETS.test(name));
}

/** The parts of the URL of an inbox that nothing may print: all of it if it cannot be read. */
export function confidentialParts(url: string): readonly string[] {
  if (!URL.canParse(url)) return [url];
  if (!hasPassword(url)) return [];
  const { password, search, searchParams } = new URL(url);
  const secrets = [...searchParams].flatMap(([name, value]) => (SECRETS.test(name) ? [value] : []));
  return [url, search, password, decode(password), ...secrets];
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const SECRETS = /pass(word|wd|phrase)|pwd|secret|token/i;

/** What people read of the URL of an endpoint: its query can hold a token. */
export function nameEndpoint(url: string): string {
  return url.replace(/[?#].*$/s, (query) => (query.startsWith('?') ? '?…' : ''));
}

/** What people read of the place of an inbox: without the query of a URL. */
export function namePlace(place: string): string {
  return place.includes('://') ? place.replace(/[?#].*$/s, '') : place;
}
