/** Runs in the app before its own code: notes driver calls, fetches and responses, and carries out the planned kill. */
import { AsyncLocalStorage, createHook, executionAsyncResource } from 'node:async_hooks';
import { createHash } from 'node:crypto';
import { subscribe } from 'node:diagnostics_channel';
import { appendFileSync, readFileSync, rmSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createRequire } from 'node:module';
import { Socket } from 'node:net';
import { dirname, join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  type CallKind,
  NOTES,
  type Note,
  PLAN,
  type Plan,
  type Point,
  SETUP,
  type Setup,
} from './protocol.js';

interface Delivery {
  readonly plan: Plan | undefined;
  readonly counts: Map<string, number>;
}

interface Call {
  readonly fails: boolean;
  end(): void;
}

type Place = Pick<Point, 'at' | 'by'>;

const { folder, path, laterMs }: Setup = JSON.parse(process.env[SETUP] ?? '');
/** A pool calls its client later, when the code that called the pool is no longer on the stack. */
const places = new AsyncLocalStorage<Place>();
/** When deferred work runs, such as an awaited query builder, the code that began it is no longer on the stack. */
const origins = new WeakMap<object, Place>();
const deliveries = new AsyncLocalStorage<Delivery | undefined>();
const own = dirname(fileURLToPath(import.meta.url));
const requires = [process.argv[1], join(process.cwd(), 'app.js')]
  .filter((file) => file !== undefined)
  .map((file) => createRequire(file));
const library = `${dirname(resolveInApp('stablehooks/package.json') ?? '/nowhere/_')}${sep}dist${sep}`;
const pgFolder = dirname(resolveInApp('pg/package.json') ?? '/nowhere/_');

function note(value: Note): void {
  appendFileSync(join(folder, NOTES), `${JSON.stringify(value)}\n`);
}

function replace(
  object: object,
  name: string,
  by: (call: (...args: readonly unknown[]) => unknown, args: readonly unknown[], self: object) => unknown,
): void {
  const method: unknown = Reflect.get(object, name);
  if (typeof method !== 'function') return;
  Reflect.set(object, name, function (this: object, ...args: readonly unknown[]) {
    return by((...words) => method.apply(this, words), args, this);
  });
}

function resolveInApp(name: string): string | undefined {
  for (const each of requires) {
    try {
      return each.resolve(name);
    } catch {}
  }
  return undefined;
}

function framesOf(): readonly (readonly [file: string, line: string])[] {
  const { stackTraceLimit, prepareStackTrace } = Error;
  // Otherwise, Next reports lines of its bundle.
  Object.assign(Error, { stackTraceLimit: 80, prepareStackTrace: undefined });
  const { stack = '' } = new Error();
  Object.assign(Error, { stackTraceLimit, prepareStackTrace });
  return stack.split('\n').flatMap((line) => {
    const [, place = '', number = ''] =
      /(?<=[ (])((?:file:\/\/)?(?:\/|[A-Z]:\\)[^()]*?):(\d+):\d+\)?$/.exec(line) ?? [];
    const file = place.startsWith('file:') ? fileURLToPath(place.replace(/\?.*/, '')) : place;
    return file === '' || file.startsWith(own) ? [] : [[file, number] as const];
  });
}

function whereCalled(): Place {
  const frames = framesOf();
  const packages = frames.map(([file]) => packageOf(file));
  const first = packages.indexOf(undefined);
  const [file, line] = frames[first] ?? [];
  if (file !== undefined) return { at: `${relative(process.cwd(), file)}:${line}`, by: 'app' };
  if (packages.includes('stablehooks')) return { at: 'stablehooks', by: 'stablehooks' };
  const origin = places.getStore() ?? origins.get(executionAsyncResource());
  return origin ?? { at: packages.at(-1) ?? 'unknown', by: 'package' };
}

createHook({
  init(_id, _type, _trigger, resource) {
    const place = deliveries.getStore() && whereCalled();
    if (place && place.by !== 'package') origins.set(resource, place);
  },
}).enable();
// With source maps, places are lines of the app's source, not of its bundle.
process.setSourceMapsEnabled(true);

function packageOf(file: string): string | undefined {
  if (file.startsWith(library)) return 'stablehooks';
  const [, name] = /.*[\\/]node_modules[\\/]((?:@[^\\/]+[\\/])?[^\\/]+)/.exec(file) ?? [];
  // This source map points outside its own package.
  return name === 'src' ? 'a package' : name;
}

function withoutValues(text: string): string {
  return text
    .replaceAll(/'(?:[^']|'')*'/g, "'…'")
    .replaceAll(/(?<![$\w])\d+/g, '…')
    .replaceAll(/\s+/g, ' ')
    .trim()
    .slice(0, 300);
}

function reach(kind: CallKind, words: string, delivery = deliveries.getStore()): Call {
  const called = {
    kind,
    text: kind === 'pg' || kind === 'sqlite' ? withoutValues(words) : words,
    ...whereCalled(),
  };
  const name = JSON.stringify(called);
  const nth = (delivery?.counts.get(name) ?? 0) + 1;
  delivery?.counts.set(name, nth);
  const point = { ...called, nth };
  note({ note: 'call', point, inDelivery: delivery !== undefined });
  const { plan } = delivery ?? {};
  const side = JSON.stringify(plan?.point) === JSON.stringify(point) ? plan?.side : undefined;
  const happen = () => {
    if (side !== undefined) note({ note: 'happened', point, side });
    if (side !== 'fails') process.kill(process.pid, 'SIGKILL');
  };
  if (side === 'before' || side === 'fails') happen();
  return {
    fails: side === 'fails',
    end: () => {
      if (side === 'after') happen();
    },
  };
}

/** Removes the plan, because it applies only to the next delivery that arrives. */
function takePlan(): Plan | undefined {
  try {
    const plan = JSON.parse(readFileSync(join(folder, PLAN), 'utf8'));
    rmSync(join(folder, PLAN));
    return plan;
  } catch {
    return undefined;
  }
}

subscribe('http.server.request.start', (message) => {
  const { request, response } = message as { request: IncomingMessage; response: ServerResponse };
  const isDelivery = request.method === 'POST' && request.url?.split('?')[0] === path;
  const delivery = isDelivery ? { plan: takePlan(), counts: new Map() } : undefined;
  deliveries.enterWith(delivery);
  if (delivery === undefined) return;
  note({ note: 'arrived' });
  // The parser calls the listeners of the body in a different context.
  replace(request, 'emit', (emit, args) => deliveries.run(delivery, () => emit(...args)));
  replace(response, 'end', (end, args) => {
    const call = reach('answer', `response ${response.statusCode}`, delivery);
    if (call.fails) return response.destroy();
    response.once('finish', call.end);
    return end(...args);
  });
});

/** Drivers call their own methods, and these calls must not be counted again. */
let isInside = false;

function synchronously(kind: CallKind, text: string, run: () => unknown): unknown {
  if (isInside) return run();
  isInside = true;
  try {
    const call = reach(kind, text);
    if (call.fails)
      throw Object.assign(new Error('disk I/O error (planned by stablehooks certify)'), {
        code: 'SQLITE_IOERR',
      });
    const result = run();
    call.end();
    return result;
  } finally {
    isInside = false;
  }
}

function countSqlite({ prototype }: { readonly prototype: object }): void {
  const texts = new WeakMap<object, string>();
  const counted = new WeakSet<object>();
  replace(prototype, 'exec', (exec, args) => synchronously('sqlite', String(args[0]), () => exec(...args)));
  replace(prototype, 'prepare', (prepare, args) => {
    const statement = Object(prepare(...args));
    texts.set(statement, String(args[0]));
    const methods = Object.getPrototypeOf(statement);
    if (!counted.has(methods)) {
      counted.add(methods);
      for (const name of ['run', 'get', 'all', 'iterate'])
        replace(methods, name, (method, values, self) =>
          synchronously('sqlite', texts.get(self) ?? '', () => method(...values)),
        );
    }
    return statement;
  });
}

/** Fails in the server, so that the transaction is aborted, as after a real error. */
const FAILING = "DO $$ BEGIN RAISE EXCEPTION 'planned by stablehooks certify'; END $$";

function countPg({ Client, Pool }: Record<'Client' | 'Pool', { readonly prototype: object }>): void {
  replace(Pool.prototype, 'query', (query, args) => places.run(whereCalled(), () => query(...args)));
  replace(Client.prototype, 'query', (query, args) => {
    const call = reach('pg', String(typeof args[0] === 'string' ? args[0] : Object(args[0]).text));
    const callback = args.at(-1);
    if (typeof callback !== 'function') {
      const result = call.fails ? query(FAILING) : query(...args);
      return result instanceof Promise ? result.finally(call.end) : result;
    }
    const ended = (...results: readonly unknown[]) => {
      call.end();
      callback(...results);
    };
    return call.fails ? query(FAILING, ended) : query(...args.slice(0, -1), ended);
  });
}

const { fetch } = globalThis;
globalThis.fetch = async (input, init) => {
  const url = new URL(input instanceof Request ? input.url : input);
  const { method = 'GET', headers } = init ?? (input instanceof Request ? input : {});
  // Path segments with digits are usually ids.
  const text = `${method.toUpperCase()} ${url.origin}${url.pathname.replaceAll(/[^/]*\d[^/]*/g, '…')}`;
  const call = reach('fetch', text);
  if (call.fails) throw new TypeError('fetch failed (planned by stablehooks certify)');
  if (!/^(?:GET|HEAD|OPTIONS) /.test(text))
    note({ note: 'sent', text, key: keyOf(text, url.href, headers, init?.body) });
  return await fetch(input, init).finally(call.end);
};

/** An idempotency key, or the URL of a PUT or DELETE, makes a repeated request harmless. */
function keyOf(text: string, href: string, headers: HeadersInit | undefined, body: unknown): string | null {
  const fields: [string, unknown][] = [...new Headers(headers)];
  if (typeof body === 'string' && body.startsWith('{')) {
    try {
      fields.push(...Object.entries(JSON.parse(body)));
    } catch {}
  }
  const [, given] = fields.find(([name]) => /idempotency[-_]?key$/i.test(name)) ?? [];
  const key = /^(?:PUT|DELETE) /.test(text) ? href : given;
  return key === undefined ? null : createHash('sha256').update(String(key)).digest('hex').slice(0, 16);
}

replace(Socket.prototype, 'write', (write, args, socket) => {
  if (deliveries.getStore() !== undefined) noteUnseenWrite(socket as Socket);
  return write(...args);
});

function noteUnseenWrite(socket: Socket & { readonly fd?: number; readonly server?: object }): void {
  // These sockets carry standard output or the responses of the app's own server.
  if (socket.fd !== undefined || socket.server) return;
  const { stack = '' } = new Error();
  if (stack.includes('node:internal/deps/undici') || stack.includes(pgFolder)) return;
  const { at } = whereCalled();
  note({ note: 'unseen', what: `data sent to port ${socket.remotePort ?? 'unknown'}`, at });
}

let isCounting = false;
const { dlopen } = process;
process.dlopen = (...args) => {
  const [, file] = args;
  if (!isCounting && /sqlite|libsql|query_engine|duckdb/i.test(file))
    note({ note: 'unseen', what: 'a native database driver', at: packageOf(file) ?? 'unknown' });
  return dlopen.apply(process, args);
};

function countDrivers(): void {
  isCounting = true;
  for (const [name, count] of [
    ['libsql', countSqlite],
    ['better-sqlite3', countSqlite],
    ['pg', countPg],
  ] as const) {
    const file = resolveInApp(name);
    if (file !== undefined) count(createRequire(file)(file));
  }
  const sqlite = process.getBuiltinModule?.('node:sqlite');
  if (sqlite !== undefined) countSqlite(Object(sqlite).DatabaseSync);
  isCounting = false;
}

countDrivers();

if (laterMs > 0) {
  globalThis.Date = new Proxy(Date, {
    construct: (target, args, newTarget) =>
      Reflect.construct(target, args.length === 0 ? [target.now() + laterMs] : args, newTarget),
    get: (target, name) => (name === 'now' ? () => target.now() + laterMs : Reflect.get(target, name)),
  });
}
