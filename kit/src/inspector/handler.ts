import type { HttpBindings } from '@hono/node-server';
import { Hono } from 'hono';
import {
  ConfigError,
  createdAtMs,
  encodeEvent,
  INBOX_STATES,
  type InboxRecord,
  type UnknownEvent,
} from 'stablehooks';
import * as z from 'zod/mini';
import { findMovement } from '../explain/movement.js';
import { EXCEPTIONS } from '../io/event-filter.js';
import type { SandboxOperations } from '../sandbox/index.js';
import { readJsonBody } from '../sandbox/read-json-body.js';
import { jsonObject, SandboxError } from '../sandbox/validation.js';
import { toShellWord } from '../shell-word.js';
import type { Access } from './access.js';
import {
  type ActionName,
  type ActionResults,
  ATTEMPT_KINDS,
  type EventDetail,
  type Found,
  type MovementRow,
  NONE_DROPPED,
  type Problem,
  type Session,
  type View,
} from './api.js';
import { acknowledge, readCoverage } from './coverage.js';
import { countEvents, explainRecord, listEvents, toRow } from './inbox-events.js';
import { describeLoss } from './inbox-source.js';
import { createOverview } from './overview.js';
import { PAGE_HEADERS, readPageFile } from './page-files.js';
import { reportService, toClock } from './sandbox-source.js';
import { applyToSelected, TooMany } from './selected-actions.js';
import { DEFAULT_FLAG, type DeliveriesPart, type InboxPart, type InspectorSource } from './source.js';
import { createStream } from './stream.js';

export const ACTION_NAMES: readonly ActionName[] = [
  ...(['resend', 'requeue', 'run', 'discard', 'acknowledge-gap'] as const),
  ...(['fire', 'set-faults', 'clear-faults', 'advance-clock'] as const),
  ...(['move', 'add-endpoint', 'remove-endpoint'] as const),
];

interface InspectorParts {
  readonly source: InspectorSource;
  readonly actions: readonly ActionName[];
  readonly access: Access;
  /** Begins and ends with a slash. */
  readonly basePath: string;
}

class RequestRefused extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Leaves room for a delivery of 1 MiB in base64. */
const MAX_BODY_BYTES = 2 * 1_048_576;

export function createHandler({ source, actions, access, basePath }: InspectorParts) {
  const stream = createStream();
  const unsubscribe = source.subscribe(stream.publish, stream.isRead);
  const overview = createOverview(source);
  const runs = createActions(source);
  const session: Omit<Session, 'position' | 'actionToken'> = {
    name: source.name,
    views: viewsOf(source),
    actions: actions.filter((name) => runs[name] !== undefined),
  };

  // Routes are relative to the base path, but `authorize` receives the client's request unchanged.
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
      // The page requests its files by relative URLs, so its own URL must end with a slash.
      return `${pathname}/` === basePath ? context.redirect(`${basePath}${search}`, 308) : next();
    }
    // A person who opens the page in a browser must be able to read the response.
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
    // Hono treats HEAD as GET and omits the body, so the stream would never end.
    if (context.req.method === 'HEAD') throw new RequestRefused(405, 'Request the stream with GET.');
    return stream.respond(context.req.raw);
  });
  app.get('/api/overview', async (context) =>
    context.json(await ask(overview(context.req.query('fresh') === '1'))),
  );
  app.get('/api/find', async (context) => {
    const { key } = parse(z.object({ key: id }), context.req.query());
    return context.json(await find(source, key.trim(), context.req.raw.signal));
  });
  app.route('/api/events', eventRoutes(source));
  if (source.deliveries) app.route('/api/attempts', attemptRoutes(source.deliveries));
  const { inbox, service } = source;
  if (inbox) app.get('/api/coverage', async (context) => context.json(await ask(readCoverage(inbox))));
  if (service) app.get('/api/sandbox', (context) => context.json(reportService(service)));
  app.post('/api/actions/:name', async (context) => {
    const name = session.actions.find((each) => each === context.req.param('name'));
    const run = name && runs[name];
    if (run === undefined) throw new RequestRefused(403, 'This inspector does not allow this action.');
    return context.json(await run(await readJsonBody(context.req.raw, MAX_BODY_BYTES)));
  });
  app.notFound(() => problem(404, 'There is nothing at this path.'));
  app.onError(toProblem);

  return {
    async fetch(request: Request, bindings: Partial<HttpBindings> = {}): Promise<Response> {
      // Hono rejects if something throws a value that is not an error, as `authorize` may do.
      const response = await Promise.resolve(app.fetch(request, bindings)).catch(toProblem);
      for (const [name, value] of Object.entries(PAGE_HEADERS)) response.headers.set(name, value);
      if (!response.headers.has('cache-control')) response.headers.set('cache-control', 'no-store');
      return response;
    },
    close(): void {
      unsubscribe();
      stream.close();
    },
  };
}

function viewsOf({ inbox, service }: InspectorSource): readonly View[] {
  return [
    ...(['overview', 'events'] as const),
    ...(inbox ? (['coverage'] as const) : []),
    ...(service ? (['sandbox'] as const) : []),
  ];
}

const id = z.string().check(z.minLength(1));
const optional = z.optional(z.string());
const time = z.optional(z.coerce.number().check(z.int(), z.minimum(0)));
const filterShape = {
  state: z.optional(z.enum([...INBOX_STATES, ...ATTEMPT_KINDS])),
  ...{ type: optional, key: optional, error: optional, group: optional, id: optional, text: optional },
  payload: z.optional(z.string().check(z.includes('='))),
  ...{ since: time, until: time, attempts: time },
};
const filterQuery = z.object(filterShape);
const pageQuery = z.object({
  ...filterShape,
  limit: z._default(z.coerce.number().check(z.int(), z.minimum(1), z.maximum(500)), 100),
  after: optional,
});

function eventRoutes({ inbox, deliveries }: InspectorSource): Hono {
  return new Hono()
    .get('/', async (context) => {
      const query = parse(pageQuery, context.req.query());
      if (inbox) return context.json(await ask(listEvents(inbox.operations, query)));
      return context.json((await deliveries?.events(query)) ?? { rows: [], next: null, searched: null });
    })
    .get('/counts', async (context) => {
      const filter = parse(filterQuery, context.req.query());
      if (inbox) return context.json(await ask(countEvents(inbox.operations, filter)));
      return context.json(
        (await deliveries?.counts(filter)) ?? { states: [], types: [], dropped: NONE_DROPPED },
      );
    })
    .get('/:id', async (context) =>
      context.json(await readEvent({ inbox, deliveries }, context.req.param('id'))),
    )
    .get('/:id/body', async (context) => {
      if (inbox === undefined) throw new RequestRefused(404, 'Only an inbox stores events.');
      const { event } = await findRecord(inbox.operations, context.req.param('id'));
      if (event === null) throw new RequestRefused(404, 'The body of this event has been pruned.');
      return context.json({ json: encodeEvent(event) });
    });
}

async function find(
  { inbox, deliveries }: InspectorSource,
  key: string,
  signal: AbortSignal,
): Promise<Found> {
  const isEvent = deliveries?.event(key) ?? (inbox && (await ask(inbox.operations.find(key))));
  if (isEvent !== undefined) return { event: key, movement: null };
  if (inbox === undefined) return { event: null, movement: null };
  const { found, unread, proven, proof } = await ask(findMovement(inbox.operations, key, signal));
  const rows = found.map((record): MovementRow => {
    const { event, origin } = record;
    return { ...toRow(record), createdAt: createdAtMs(event), origin, text: shortText(event) };
  });
  return { event: null, movement: { rows, unread, proof, isProven: proven !== null } };
}

const MAX_SHORT = 16_384;

function shortText(event: UnknownEvent | null): string | null {
  const text = event === null ? null : encodeEvent(event);
  return text !== null && text.length <= MAX_SHORT ? text : null;
}

async function readEvent(
  { inbox, deliveries }: Pick<InspectorSource, 'inbox' | 'deliveries'>,
  id: string,
): Promise<EventDetail> {
  const delivered = deliveries?.event(id);
  if (inbox !== undefined) {
    const record = await findRecord(inbox.operations, id);
    const steps = await ask(inbox.operations.steps(id));
    const { event, origin, updatedAt } = record;
    return {
      ...toRow(record),
      ...{ origin, updatedAt, explanation: explainRecord(record) },
      deliveries: delivered?.history ?? [],
      steps: steps.map(({ result, ...step }) => ({ ...step, hasResult: result !== null })),
      body: event === null ? 'pruned' : 'stored',
      text: shortText(event),
      command: `stablehooks inbox show ${toShellWord(id)} --inbox ${toShellWord(inbox.flag ?? DEFAULT_FLAG)}`,
    };
  }
  const last = delivered?.history.at(-1);
  if (delivered === undefined || last === undefined) {
    throw new RequestRefused(404, 'No attempts at this event are available any more.');
  }
  const decisive = delivered.history.findLast(({ tone }) => tone === delivered.tone) ?? last;
  const attempt = decisive.id === null ? undefined : await deliveries?.find(decisive.id);
  return {
    ...delivered,
    explanation: attempt?.verdict ?? { what: delivered.verdict, fix: null },
    deliveries: delivered.history,
    ...{ origin: null, body: 'none', updatedAt: null, steps: [], text: null, command: null },
  };
}

function attemptRoutes(deliveries: DeliveriesPart): Hono {
  return new Hono().get('/:id', async (context) => {
    const attempt = await deliveries.find(context.req.param('id'));
    if (attempt === undefined) throw new RequestRefused(404, 'This attempt is no longer available.');
    return context.json(attempt);
  });
}

async function findRecord(operations: InboxPart['operations'], id: string): Promise<InboxRecord> {
  const record = await ask(operations.find(id));
  if (record === undefined) throw new RequestRefused(404, 'The inbox has no event with this id.');
  return record;
}

type Actions = {
  readonly [Name in ActionName]?: ((input: unknown) => Promise<ActionResults[Name]>) | undefined;
};

const selected = z.object({
  filter: z.strictObject({
    ...filterShape,
    ids: z.optional(z.array(id).check(z.maxLength(10_000))),
    except: z.optional(z.array(z.enum(EXCEPTIONS))),
  }),
  dryRun: z.optional(z.boolean()),
});

function createActions({ deliveries, inbox, service }: InspectorSource): Actions {
  return {
    ...(deliveries && {
      resend: async (input) => {
        const wanted = parse(z.object({ id, url: optional, body: z.optional(z.base64()) }), input);
        const body = wanted.body === undefined ? undefined : Buffer.from(wanted.body, 'base64');
        return deliveries.resend(wanted.id, { url: wanted.url, body });
      },
    }),
    ...(inbox && {
      requeue: async (input) =>
        ask(
          applyToSelected(
            inbox,
            'requeue',
            parse(z.extend(selected, { by: optional, reason: optional }), input),
          ),
        ),
      discard: async (input) => {
        const wanted = parse(z.extend(selected, { by: id, reason: id }), input);
        if (Object.values(wanted.filter).every((value) => value === undefined)) {
          throw new RequestRefused(
            409,
            'Nothing was discarded. Set a filter, because without a filter, every event would be discarded.',
          );
        }
        return ask(applyToSelected(inbox, 'discard', wanted));
      },
      'acknowledge-gap': async (input) => ({
        done: await ask(
          acknowledge(inbox, parse(z.object({ id, until: z.iso.datetime(), by: id, reason: id }), input)),
        ),
      }),
    }),
    ...(inbox?.run && {
      run: async (input) => ask(applyToSelected(inbox, 'run', parse(selected, input))),
    }),
    ...(service && serviceActions(service)),
  };
}

function serviceActions(sandbox: SandboxOperations): Actions {
  return {
    fire: async (input) => {
      const { type, payload } = parse(z.object({ type: id, payload: z.optional(jsonObject) }), input);
      return { id: sandbox.emit(type, payload).id };
    },
    'set-faults': async (input) => sandbox.faults.set(parse(jsonObject, input)),
    'clear-faults': async () => sandbox.faults.clear(),
    'advance-clock': async (input) => {
      await sandbox.clock.advance(parse(z.object({ ms: z.number() }), input).ms);
      return { now: toClock(sandbox).now };
    },
    move: async (input) => {
      const kinds = z.enum(['accept', 'transfer', 'redeem']);
      const { kind, amount } = parse(z.object({ kind: kinds, amount: id }), input);
      return sandbox[kind]({ amount });
    },
    'add-endpoint': async (input) => sandbox.endpoints.add(parse(z.object({ url: id }), input)),
    'remove-endpoint': async (input) => {
      sandbox.endpoints.remove(parse(z.object({ id }), input).id);
      return {};
    },
  };
}

/** If the inbox fails, refuses with only the error's code, because the message can quote a connection string. */
async function ask<Answer>(answer: Promise<Answer>): Promise<Answer> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof ConfigError || error instanceof TooMany) {
      throw new RequestRefused(409, error.message);
    }
    throw new RequestRefused(503, describeLoss(error));
  }
}

function parse<Schema extends z.ZodMiniType>(schema: Schema, input: unknown): z.output<Schema> {
  const result = z.safeParse(schema, input);
  if (result.success) return result.data;
  const fields = result.error.issues.map(({ path }) => path.join('.') || 'the body');
  throw new RequestRefused(400, `Nothing was changed. Invalid: ${fields.join(', ')}.`);
}

function toProblem(error: unknown): Response {
  if (error instanceof RequestRefused || error instanceof SandboxError) {
    return problem(error.status, error.message);
  }
  console.error(error);
  return problem(500, 'The inspector failed. See the error in the log of its process.');
}

function problem(status: number, message: string): Response {
  return Response.json({ message } satisfies Problem, { status });
}
