import { Hono } from 'hono';
import { ConfigError } from 'stablehooks';
import { SandboxError } from '../sandbox/validation.js';
import type { Access } from './access.js';
import type { ActionName, Problem, Session, View } from './api.js';
import { PAGE_HEADERS, readPageFile } from './page-files.js';
import type { InspectorSource } from './source.js';
import { createStream } from './stream.js';

/** What an inspector consists of. */
export interface InspectorParts {
  readonly source: InspectorSource;
  readonly actions: readonly ActionName[];
  readonly access: Access;
  readonly basePath: string;
}

/** A request that cannot be answered, and why. */
class Refused extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Creates the handler of an inspector: the page, its data and its actions. */
export function createHandler({ source, actions, access, basePath }: InspectorParts) {
  const stream = createStream();
  const unsubscribe = source.subscribe(stream.publish, stream.isRead);
  const app = new Hono().basePath(basePath);

  app.use(async (context, next) => {
    const refused = await access.check(context.req.raw);
    if (refused !== undefined) throw new Refused(refused.status, refused.message);
    await next();
  });
  app.get('/', async (context) => {
    const page = await readPageFile('index.html');
    if (page === undefined)
      throw new ConfigError('The files of the page are missing. Install the package again.');
    access.admit(context.req.raw, page.headers);
    return page;
  });
  app.get('/assets/:file', async (context) => {
    const file = await readPageFile(`assets/${context.req.param('file')}`);
    if (file === undefined) throw new Refused(404, 'There is no such file. Reload the page.');
    return file;
  });

  const session: Session = {
    name: source.name,
    views: viewsOf(source),
    actions,
    actionToken: access.actionToken,
  };
  app.get('/api/session', (context) => context.json(session));
  app.get('/api/stream', (context) => stream.respond(context.req.raw));

  app.notFound(() => problem(404, 'There is nothing at this path.'));
  app.onError((error) => {
    if (error instanceof Refused || error instanceof SandboxError)
      return problem(error.status, error.message);
    console.error(error);
    return problem(500, 'The inspector failed. Its log shows the error.');
  });

  return {
    async fetch(request: Request): Promise<Response> {
      const response = await app.fetch(request);
      for (const [name, value] of Object.entries(PAGE_HEADERS)) response.headers.set(name, value);
      return response;
    },
    close(): void {
      unsubscribe();
      stream.close();
    },
  };
}

function viewsOf({ deliveries, inbox, service }: InspectorSource): readonly View[] {
  return [
    ...(deliveries ? (['deliveries'] as const) : []),
    ...(inbox ? (['inbox', 'coverage'] as const) : []),
    ...(service ? (['service'] as const) : []),
  ];
}

function problem(status: number, message: string): Response {
  return Response.json({ message } satisfies Problem, { status, headers: { 'cache-control': 'no-store' } });
}
