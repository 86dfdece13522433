/** Detects requests that a web site makes a browser send to a local server. */

export function isLoopback(hostname: string): boolean {
  return ['127.0.0.1', 'localhost', '[::1]', '::1'].includes(hostname);
}

/** Only the request's host reveals a site whose name resolves to this machine (DNS rebinding). */
export function readHost(request: Request): { readonly hostname: string; readonly port: number } {
  const [, hostname = '', port] = /^(.*?)(?::(\d+))?$/.exec(request.headers.get('host') ?? '') ?? [];
  return { hostname, port: Number(port ?? 80) };
}

/** Pages from another port on this machine also count as another site. */
export function isFromOtherSite(request: Request): boolean {
  const site = request.headers.get('sec-fetch-site');
  if (site === null) {
    // The client is not a browser, is an old browser, or requested an `http:` URL of another machine.
    const origin = request.headers.get('origin');
    const host = request.headers.get('host') ?? new URL(request.url).host;
    return origin !== null && toHost(origin) !== host;
  }
  // The browser has already compared the origins, and a proxy can change the host.
  if (site === 'same-origin' || site === 'none') return false;
  // A link on another site may open a page, because the page shows nothing without a cookie or a token.
  const isNavigation = request.method === 'GET' && request.headers.get('sec-fetch-mode') === 'navigate';
  return !(isNavigation && request.headers.get('sec-fetch-dest') === 'document');
}

function toHost(origin: string): string | undefined {
  return URL.canParse(origin) ? new URL(origin).host : undefined;
}
