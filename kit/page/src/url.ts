import { signal } from '@preact/signals';

/** The state of the page is in the query of its URL: which view, which filters, what is open. */
const current = signal(new URLSearchParams(location.search));

addEventListener('popstate', () => {
  current.value = new URLSearchParams(location.search);
});

/** One parameter of the URL; a component that reads it is rendered again when it changes. */
export function param(name: string): string | undefined {
  return current.value.get(name) ?? undefined;
}

type Change = Readonly<Record<string, string | undefined>>;

/** The URL with changed parameters; `undefined` removes one. */
export function hrefWith(change: Change): string {
  const next = new URLSearchParams(current.value);
  // The token is exchanged for a cookie, and must not be copied with a link.
  next.delete('token');
  for (const [name, value] of Object.entries(change)) {
    if (value === undefined || value === '') next.delete(name);
    else next.set(name, value);
  }
  const query = next.toString();
  return query === '' ? location.pathname : `?${query}`;
}

/** Goes to the URL with changed parameters. With `replace`, Back does not return to the one before. */
export function go(change: Change, { replace = false } = {}): void {
  const href = hrefWith(change);
  if (replace) history.replaceState(null, '', href);
  else history.pushState(null, '', href);
  current.value = new URLSearchParams(location.search);
}

/** A link to the URL with other parameters only, such as `viewHref({ view: 'inbox' })`. */
export function hrefOf(params: Readonly<Record<string, string>>): string {
  return `?${new URLSearchParams(params)}`;
}

/** Follows a link within the page without loading it again, unless it is to be opened elsewhere. */
export function follow(event: MouseEvent): void {
  const link = event.currentTarget;
  const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
  if (!(link instanceof HTMLAnchorElement) || !isPlain) return;
  event.preventDefault();
  visit(link.href);
}

/** Goes to a URL of the page without loading it again. */
export function visit(href: string): void {
  history.pushState(null, '', href);
  current.value = new URLSearchParams(location.search);
}
