import { isLoopback } from '../other-sites.js';
import { type Listening, listen } from '../sandbox/server.js';
import { tokenAccess } from './access.js';
import type { ActionName } from './api.js';
import { ACTION_NAMES, createHandler } from './handler.js';
import type { InspectorSource } from './source.js';

export function createLocalInspector(source: InspectorSource, actions: readonly ActionName[] = ACTION_NAMES) {
  let port = 0;
  const access = tokenAccess(() => port);
  const handler = createHandler({ source, actions, access, basePath: '/' });
  return {
    ...handler,
    urlAt(baseUrl: string): string {
      const url = new URL(`/?token=${access.token}`, baseUrl);
      // A URL does not contain the default port of its scheme.
      port = Number(url.port || 80);
      // Browsers cannot open the address of all interfaces, and only loopback names are accepted.
      if (!isLoopback(url.hostname)) url.hostname = '127.0.0.1';
      return url.href;
    },
  };
}

/** Listens on the loopback interface. Port 0 picks a free port. */
export async function serveInspector(
  source: InspectorSource,
  { port, actions }: { readonly port: number; readonly actions?: readonly ActionName[] | undefined },
): Promise<Listening> {
  const inspector = createLocalInspector(source, actions);
  const server = await listen(inspector.fetch, port);
  return {
    url: inspector.urlAt(server.url),
    async close() {
      inspector.close();
      await server.close();
    },
  };
}
