/** How a server on this machine recognises requests that a web site has a browser send to it. */

/** Whether a host name always means this machine, as in a URL or to listen on. */
export function isLoopback(hostname: string): boolean {
  return ['127.0.0.1', 'localhost', '[::1]', '::1'].includes(hostname);
}

/**
 * The host that a request asks for. A site whose name was made to resolve to this machine (DNS rebinding) is of the same
 * origin as this server, and only the name tells its requests from others.
 */
export function readHost(request: Request): { readonly hostname: string; readonly port: number } {
  const [, hostname = '', port] = /^(.*?)(?::(\d+))?$/.exec(request.headers.get('host') ?? '') ?? [];
  return { hostname, port: Number(port ?? 80) };
}

/** Whether a page of another site, or of another port of this machine, has a browser send this request. */
export function isFromOtherSite(request: Request): boolean {
  const site = request.headers.get('sec-fetch-site');
  if (site === null) {
    // No browser, an older one, or a URL with http: and another host than this machine.
    const origin = request.headers.get('origin');
    const host = request.headers.get('host') ?? new URL(request.url).host;
    return origin !== null && toHost(origin) !== host;
  }
  // The browser has compared the origins. A proxy can change the host.
  if (site === 'same-origin' || site === 'none') return false;
  // A link on another site may open a page, which shows nothing without a cookie or a token.
  const isNavigation = request.method === 'GET' && request.headers.get('sec-fetch-mode') === 'navigate';
  return !(isNavigation && request.headers.get('sec-fetch-dest') === 'document');
}

function toHost(origin: string): string | undefined {
  return URL.canParse(origin) ? new URL(origin).host : undefined;
}
