import { signal } from '@preact/signals';

/** The query contains the state of the page: the view, the filters, and what is open. */
const current = signal(new URLSearchParams(location.search));

addEventListener('popstate', () => {
  current.value = new URLSearchParams(location.search);
});

/** A component that reads a parameter is rendered again when the parameter changes. */
export function param(name: string): string | undefined {
  return current.value.get(name) ?? undefined;
}

type Change = Readonly<Record<string, string | undefined>>;

export function hrefWith(change: Change): string {
  const next = new URLSearchParams(current.value);
  // The token has been exchanged for a cookie, and must not be copied along with a link.
  next.delete('token');
  for (const [name, value] of Object.entries(change)) {
    if (value === undefined || value === '') next.delete(name);
    else next.set(name, value);
  }
  const query = next.toString();
  return query === '' ? location.pathname : `?${query}`;
}

export function go(change: Change, { replace = false } = {}): void {
  const href = hrefWith(change);
  if (replace) history.replaceState(null, '', href);
  else history.pushState(null, '', href);
  current.value = new URLSearchParams(location.search);
}

export function hrefOf(params: Readonly<Record<string, string>>): string {
  return `?${new URLSearchParams(params)}`;
}

export function follow(event: MouseEvent): void {
  const link = event.currentTarget;
  const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
  if (!(link instanceof HTMLAnchorElement) || !isPlain) return;
  event.preventDefault();
  visit(link.href);
}

export function visit(href: string): void {
  history.pushState(null, '', href);
  current.value = new URLSearchParams(location.search);
}
