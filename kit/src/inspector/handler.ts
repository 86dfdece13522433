import type { HttpBindings } from '@hono/node-server';
import { Hono } from 'hono';
import { ConfigError, INBOX_STATES, type InboxRecord } from 'stablehooks';
import * as z from 'zod/mini';
import { toJsonText } from '../io/output.js';
import { jsonObject, SandboxError } from '../sandbox/validation.js';
import type { Access } from './access.js';
import {
  type ActionInputs,
  type ActionName,
  type ActionResults,
  ATTEMPT_KINDS,
  type AttemptFilter,
  type InboxDetail,
  type InboxPage,
  type InboxRow,
  type Problem,
  type Session,
  type View,
} from './api.js';
import { type Coverage, createCoverage } from './coverage.js';
import { describeLoss } from './inbox-source.js';
import { PAGE_HEADERS, readPageFile } from './page-files.js';
import type { DeliveriesPart, InboxPart, InspectorSource, ServicePart } from './source.js';
import { createStream } from './stream.js';

/** Every action. */
export const ACTION_NAMES: readonly ActionName[] = [
  ...(['resend', 'requeue', 'run', 'prune', 'acknowledge-gap'] as const),
  ...(['fire', 'set-faults', 'clear-faults', 'advance-clock'] as const),
];

/** The parts of an inspector. */
interface InspectorParts {
  readonly source: InspectorSource;
  readonly actions: readonly ActionName[];
  readonly access: Access;
  /** Begins and ends with a slash. */
  readonly basePath: string;
}

/** A refusal, or a failure to answer. The message is for the reader of the page. */
class RequestRefused extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** The largest body of an action: a delivery of 1 MiB in base64, and its envelope. */
const MAX_BODY_BYTES = 2 * 1_048_576;

/** Creates the handler of an inspector: the page, its data and its actions. */
export function createHandler({ source, actions, access, basePath }: InspectorParts) {
  const stream = createStream();
  const unsubscribe = source.subscribe(stream.publish, stream.isRead);
  const coverage = source.inbox && createCoverage(source.inbox);
  const runs = createActions(source, coverage);
  const session: Omit<Session, 'position' | 'actionToken'> = {
    name: source.name,
    views: viewsOf(source),
    actions: actions.filter((name) => runs[name] !== undefined),
  };

  // Routes are relative to the base path. `authorize` receives the unchanged request of the client.
  const app = new Hono<{ Bindings: Partial<HttpBindings> }>({
    getPath(request) {
      const { pathname } = new URL(request.url);
      return pathname.startsWith(basePath) ? pathname.slice(basePath.length - 1) : '/outside';
    },
  });
  app.use(async (context, next) => {
    const refused = await access.check(context.req.raw, context.env.incoming?.socket.remoteAddress);
    if (refused === undefined) {
      const { pathname, search } = new URL(context.req.raw.url);
      // The page requests its files by relative URLs.
      return `${pathname}/` === basePath ? context.redirect(`${basePath}${search}`, 308) : next();
    }
    // A person who opens the page in a browser reads this.
    const isOpened = context.req.header('accept')?.includes('text/html') === true;
    return isOpened
      ? context.text(refused.message, refused.status)
      : problem(refused.status, refused.message);
  });
  app.get('/', async (context) => {
    const page = await readPageFile('index.html');
    if (page === undefined) throw new ConfigError('The page is missing. Install stablehooks-kit again.');
    access.setCookie(context.req.raw, page.headers);
    return page;
  });
  app.get('/assets/:file', async (context) => {
    const file = await readPageFile(`assets/${context.req.param('file')}`);
    if (file === undefined) throw new RequestRefused(404, 'This file does not exist. Reload the page.');
    return file;
  });
  app.get('/api/session', (context) => {
    const headers = new Headers();
    const actionToken = access.actionToken(context.req.raw, headers);
    const answer: Session = { ...session, actionToken, position: stream.position() };
    return Response.json(answer, { headers });
  });
  app.get('/api/stream', (context) => {
    // Hono answers HEAD as GET without the body, and the stream would never end.
    if (context.req.method === 'HEAD') throw new RequestRefused(405, 'Request the stream by GET.');
    return stream.respond(context.req.raw);
  });
  if (source.deliveries) app.route('/api/deliveries', deliveryRoutes(source.deliveries));
  if (source.inbox) app.route('/api/inbox', inboxRoutes(source.inbox));
  if (coverage) app.route('/api', coverageRoutes(coverage));
  if (source.service) app.route('/api/service', serviceRoutes(source.service));
  app.post('/api/actions/:name', async (context) => {
    const name = session.actions.find((each) => each === context.req.param('name'));
    const run = name && runs[name];
    if (run === undefined) throw new RequestRefused(403, 'This inspector does not allow this action.');
    return context.json(await run(await readJson(context.req.raw)));
  });
  app.notFound(() => problem(404, 'There is nothing at this path.'));
  app.onError(toProblem);

  return {
    async fetch(request: Request, bindings: Partial<HttpBindings> = {}): Promise<Response> {
      // Hono rejects for a thrown value that is not an error, such as by `authorize`.
      const response = await Promise.resolve(app.fetch(request, bindings)).catch(toProblem);
      for (const [name, value] of Object.entries(PAGE_HEADERS)) response.headers.set(name, value);
      if (!response.headers.has('cache-control')) response.headers.set('cache-control', 'no-store');
      return response;
    },
    close(): void {
      unsubscribe();
      coverage?.close();
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

const optional = z.optional(z.string());
const limit = z._default(z.coerce.number().check(z.int(), z.minimum(1), z.maximum(500)), 100);
const filterQuery = z.object({
  type: optional,
  kind: z.optional(z.enum(ATTEMPT_KINDS)),
  id: optional,
  text: optional,
});

function deliveryRoutes(deliveries: DeliveriesPart): Hono {
  const query = z.extend(filterQuery, { limit, before: optional });
  return new Hono()
    .get('/', async (context) => context.json(await deliveries.list(parse(query, context.req.query()))))
    .get('/stats', async (context) =>
      context.json(await deliveries.stats(parse(filterQuery, context.req.query()) satisfies AttemptFilter)),
    )
    .get('/:id', async (context) => {
      const attempt = await deliveries.find(context.req.param('id'));
      if (attempt === undefined) throw new RequestRefused(404, 'This attempt is no longer kept.');
      return context.json(attempt);
    });
}

function inboxRoutes({ operations }: InboxPart): Hono {
  const query = z.object({
    state: z.enum(INBOX_STATES),
    order: z._default(z.enum(['newest', 'oldest']), 'newest'),
    limit,
    after: optional,
  });
  return new Hono()
    .get('/counts', async (context) => context.json(await ask(operations.count())))
    .get('/events', async (context) => {
      const wanted = parse(query, context.req.query());
      const records = await ask(operations.list(wanted));
      const next = records.length < wanted.limit ? null : (records.at(-1)?.id ?? null);
      return context.json({ rows: records.map(toInboxRow), next } satisfies InboxPage);
    })
    .get('/events/:id', async (context) => {
      const record = await findRecord(operations, context.req.param('id'));
      return context.json(toInboxDetail(record, context.req.query('payload') === '1'));
    });
}

function coverageRoutes(coverage: Coverage): Hono {
  return (
    new Hono()
      .get('/coverage', async (context) => context.json(await ask(coverage.report())))
      // Readers may draw it, because it changes nothing in the inbox.
      .post('/coverage', async (context) => {
        coverage.draw();
        return context.json(await ask(coverage.report()));
      })
      .get('/coverage.svg', (context) => {
        const svg = coverage.picture();
        if (svg === undefined) throw new RequestRefused(404, 'The picture is not drawn yet.');
        return context.body(svg, 200, { 'content-type': 'image/svg+xml' });
      })
  );
}

function serviceRoutes(service: ServicePart): Hono {
  return new Hono().get('/', (context) => context.json(service.report()));
}

async function findRecord(operations: InboxPart['operations'], id: string): Promise<InboxRecord> {
  const record = await ask(operations.find(id));
  if (record === undefined) throw new RequestRefused(404, 'The inbox has no event with this id.');
  return record;
}

function toInboxRow({ history: _, event: __, traceparent: ___, ...row }: InboxRecord): InboxRow {
  return row;
}

function toInboxDetail(record: InboxRecord, withPayload: boolean): InboxDetail {
  const { history, event, traceparent } = record;
  const json = withPayload && event !== null ? toJsonText(event) : null;
  return { ...toInboxRow(record), history, traceparent, json, pruned: event === null };
}

type Actions = {
  readonly [Name in ActionName]?: ((input: unknown) => Promise<ActionResults[Name]>) | undefined;
};

const id = z.string().check(z.minLength(1));

/** The actions of the source. Each checks its input. */
function createActions(
  { deliveries, inbox, service }: InspectorSource,
  coverage: Coverage | undefined,
): Actions {
  return {
    ...(deliveries && {
      resend: async (input) => {
        const wanted = parse(z.object({ id, url: optional, body: z.optional(z.base64()) }), input);
        const body = wanted.body === undefined ? undefined : Buffer.from(wanted.body, 'base64');
        return { id: await deliveries.resend(wanted.id, { url: wanted.url, body }) };
      },
    }),
    ...(inbox && {
      requeue: async (input) => {
        const wanted = parse(z.object({ id }), input).id;
        if ((await ask(inbox.operations.requeue(wanted))) > 0) return {};
        const { state } = await findRecord(inbox.operations, wanted);
        const why = `it is ${state}, and only dead and failed events can be requeued`;
        throw new RequestRefused(409, `The event was not requeued: ${why}.`);
      },
      prune: async (input) => {
        const options = parse(z.object({ olderThanMs: z.number().check(z.minimum(0)) }), input);
        return { pruned: await ask(inbox.operations.prune(options)) };
      },
    }),
    ...(inbox?.run && { run: runOf(inbox, inbox.run) }),
    ...(coverage && {
      'acknowledge-gap': async (input) => ({
        done: await ask(coverage.acknowledge(parse(z.object({ id, by: id, reason: id }), input))),
      }),
    }),
    ...(service && {
      fire: async (input) => ({
        id: service.fire(parse(z.object({ type: id, payload: z.optional(jsonObject) }), input)),
      }),
      'set-faults': async (input) => {
        // The sandbox checks each fault.
        service.setFaults(parse(jsonObject, input) as ActionInputs['set-faults']);
        return service.report().faults;
      },
      'clear-faults': async () => {
        service.clearFaults();
        return service.report().faults;
      },
      'advance-clock': async (input) => {
        await service.advanceClock(parse(z.object({ ms: z.number().check(z.minimum(0)) }), input).ms);
        return { now: service.report().clock.now };
      },
    }),
  };
}

/** Runs a waiting event, or a failed one now instead of at its retry time. */
function runOf({ operations }: InboxPart, run: NonNullable<InboxPart['run']>) {
  return async (input: unknown) => {
    const record = await findRecord(operations, parse(z.object({ id }), input).id);
    const { state, event, dueAt } = record;
    if (state === 'done') throw new RequestRefused(409, 'The event is done, so it is not run again.');
    // A lapsed lease means that no process runs it.
    if (state === 'leased' && (dueAt ?? 0) > Date.now()) throw new RequestRefused(409, 'The event runs now.');
    if (event === null) throw new RequestRefused(409, 'The event is pruned, so it cannot run.');
    const isRequeued =
      (state === 'dead' || state === 'failed') && (await ask(operations.requeue(record.id))) > 0;
    try {
      return { outcome: await run(event) };
    } catch (error) {
      console.error(error);
      const before = isRequeued ? ' after it was requeued: it is due now, with its attempts reset' : '';
      throw new RequestRefused(
        500,
        `The event could not be run${before}. The log of the process shows the error.`,
      );
    }
  };
}

/**
 * Awaits an answer of the inbox.
 *
 * @throws {RequestRefused} 503 with the code of the error: its message can quote a connection string.
 */
async function ask<Answer>(answer: Promise<Answer>): Promise<Answer> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof ConfigError) throw new RequestRefused(409, error.message);
    throw new RequestRefused(503, describeLoss(error));
  }
}

function parse<Schema extends z.ZodMiniType>(schema: Schema, input: unknown): z.output<Schema> {
  const result = z.safeParse(schema, input);
  if (result.success) return result.data;
  const fields = result.error.issues.map(({ path }) => path.join('.') || 'the body');
  throw new RequestRefused(400, `Nothing was changed: ${fields.join(', ')} cannot be used.`);
}

async function readJson(request: Request): Promise<unknown> {
  if (!/^application\/json\b/i.test(request.headers.get('content-type') ?? '')) {
    throw new RequestRefused(415, 'Send JSON as `content-type: application/json`.');
  }
  const chunks: Uint8Array[] = [];
  let size = 0;
  // Counted while reading, because a body without `content-length` can be too large as well.
  for await (const chunk of (request.body as ReadableStream<Uint8Array> | null) ?? []) {
    size += chunk.length;
    if (size > MAX_BODY_BYTES) throw new RequestRefused(413, 'Nothing was changed: the body is too large.');
    chunks.push(chunk);
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString());
  } catch {
    throw new RequestRefused(400, 'Nothing was changed: the body is not JSON.');
  }
}

function toProblem(error: unknown): Response {
  if (error instanceof RequestRefused || error instanceof SandboxError) {
    return problem(error.status, error.message);
  }
  console.error(error);
  return problem(500, 'The inspector failed. The log of its process shows the error.');
}

function problem(status: number, message: string): Response {
  return Response.json({ message } satisfies Problem, { status });
}
