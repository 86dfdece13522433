/** Recognises requests that a web site makes a browser send to a local server. */

/** Whether a host name always refers to this machine. */
export function isLoopback(hostname: string): boolean {
  return ['127.0.0.1', 'localhost', '[::1]', '::1'].includes(hostname);
}

/**
 * Returns the host that a request names. Only this name shows whether the browser asked for this server or for a site
 * whose name resolves to this machine (DNS rebinding).
 */
export function readHost(request: Request): { readonly hostname: string; readonly port: number } {
  const [, hostname = '', port] = /^(.*?)(?::(\d+))?$/.exec(request.headers.get('host') ?? '') ?? [];
  return { hostname, port: Number(port ?? 80) };
}

/** Whether a page from another site, or from another port on this machine, made a browser send this request. */
export function isFromOtherSite(request: Request): boolean {
  const site = request.headers.get('sec-fetch-site');
  if (site === null) {
    // The client is not a browser, or it is an older browser, or the URL is an `http:` URL with a host other than this
    // machine.
    const origin = request.headers.get('origin');
    const host = request.headers.get('host') ?? new URL(request.url).host;
    return origin !== null && toHost(origin) !== host;
  }
  // The browser has already compared the origins. Comparing the host here could be wrong, because a proxy can change
  // the host.
  if (site === 'same-origin' || site === 'none') return false;
  // A link on another site is allowed to open a page, because the page shows nothing without a cookie or a token.
  const isNavigation = request.method === 'GET' && request.headers.get('sec-fetch-mode') === 'navigate';
  return !(isNavigation && request.headers.get('sec-fetch-dest') === 'document');
}

function toHost(origin: string): string | undefined {
  return URL.canParse(origin) ? new URL(origin).host : undefined;
}
