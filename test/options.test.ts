import { neon } from '@neondatabase/serverless';
import { Redis as Upstash } from '@upstash/redis';
import { drizzle as drizzleNeonHttp } from 'drizzle-orm/neon-http';
import Database from 'libsql';
import { createReceiver, memoryInbox } from 'stablehooks';
import { fromDrizzle, fromPostgresJs } from 'stablehooks/inboxes/postgres';
import { fromIoredis, fromNodeRedis, redisInbox } from 'stablehooks/inboxes/redis';
import { expect, test } from 'vitest';
import manifest from '../package.json' with { type: 'json' };
import { blocksOf, sectionOf } from './project/markdown.js';
import { textOf } from './project/source.js';

const method = async () => {
  throw new Error('A factory must not use its arguments before the first event.');
};
const pool = { query: method };
const mysqlPool = { getConnection: method, query: method, execute: method };
const poolWithClients = { query: method, connect: method };
const poolWithTransactions = { query: method, transaction: method };
const upstash = { eval: method, evalsha: method };
const ioredis = { eval: method, evalsha: method };
const nodeRedis = { eval: method, evalSha: method };
const storage = {
  sql: { exec: () => ({ toArray: () => [] }) },
  transactionSync: (step: () => unknown) => step(),
};
const postgresJs = Object.assign(() => undefined, { unsafe: method, begin: method });
const neonHttp = neon('postgres://user:password@db.example/app');
const boss = { send: method, getJobById: method, deleteJob: method, complete: method };
const queue = { add: method, getJobState: method, remove: method };
const receiver = createReceiver({ secret: 'whsec_test', handlers: {} });
const client = { events: { list: method, listWithProblems: method } };
const day = '2026-03-01T00:00:00Z';
const gap = { from: day, until: day, openedAt: day };
const emptyList = {
  events: { listWithProblems: async () => ({ events: [], problems: [], size: 0, servedAt: null }) },
};
const required = { secret: 'whsec_test', handlers: {} };
const books = { client: emptyList, inbox: memoryInbox(), ledger: [], since: new Date(0) };
const owed = {
  client: emptyList,
  inbox: memoryInbox(),
  pending: method,
  keyOf: method,
  terminal: ['transfer.settled'],
  withinMs: 0,
};
const source = { name: 'app', subscribe: () => () => undefined };
const service = { baseUrl: 'http://localhost:1', token: 'token' };

const subpaths = Object.keys(manifest.exports).filter(
  (subpath) => !['./package.json', './openapi.json', './testing', './internal/hmac'].includes(subpath),
);
const exported = await Promise.all(
  subpaths.map((subpath) => import(`stablehooks${subpath.slice(1)}`) as Promise<object>),
);
const kit = [await import('stablehooks-kit/inspector'), await import('stablehooks-kit/sandbox')];

/** Every export by its name, without types: factories are called with arguments that their types refuse. */
const factories: Readonly<Record<string, (...args: readonly unknown[]) => unknown>> = Object.assign(
  {},
  ...exported,
  ...kit,
);

/** Arguments and what the message says after the name of the factory. */
const refused: readonly (readonly [name: string, args: readonly unknown[], message: string])[] = [
  ['createReceiver', [], 'the options must be an object'],
  ['withPayload', [undefined, method], 'pass a Standard Schema'],
  ['withPayload', [{ '~standard': { validate: method } }], 'and a handler'],
  ['createReceiver', [{ ...required, inbox: {} }], '`inbox` must be an inbox'],
  ['createReceiver', [{ ...required, runtime: { now: 0 } }], '`runtime` must be an object with any of'],
  ['memoryInbox', [{ runtime: { time: method } }], '`runtime` must be an object with any of'],
  ['createPoller', [{ client, receiver, runtime: null }], '`runtime` must be an object with any of'],
  ['createSandbox', [{ runtime: 1 }], '`runtime` must be an object'],
  ['openTelemetry', [{ tracerProvider: {} }], '`tracerProvider` must be a tracer provider'],
  ['openTelemetry', [{ meterProvider: method }], '`meterProvider` must be a meter provider'],
  ['openTelemetry', [{ attributes: 'eu' }], '`attributes` must be an object'],
  ['openTelemetry', [{ inboxMetrics: 'no' }], '`inboxMetrics` must be'],
  ['createPoller', [{ client, receiver: {} }], '`receiver` must be a receiver'],
  ['listGaps', [receiver], '`inbox` must be an inbox'],
  ['acknowledgeGap', [{}, gap, { by: 'ops', reason: 'booked' }], '`inbox` must be an inbox'],
  [
    'acknowledgeGap',
    [memoryInbox(), gap, { by: 'ops' }],
    '`reason` must be a string of 1 to 1000 characters',
  ],
  ['createPoller', [{ client: {}, receiver }], '`client` must be a client'],
  ['createPoller', [{ client, receiver, since: 'today' }], '`since` must be a valid Date'],
  ['findOwed', [{ ...owed, terminal: [] }], '`terminal` must be an array of event types'],
  ['findOwed', [{ ...owed, pending: [] }], '`pending` must be a function'],
  ['reconcile', [{ ...books, ledger: 7 }], '`ledger` must be an iterable'],
  ['reconcile', [{ ...books, ledgerTypes: ['transfer.setled'] }], '`ledgerTypes` must be an array'],
  ['reconcile', [{ ...books, ledger: { [Symbol.iterator]: undefined } }], '`ledger` must be an iterable'],
  ['reconcile', [{ ...books, ledger: [undefined] }], 'an entry in `ledger` has no `id`'],
  ['reconcile', [{ ...books, inbox: receiver }], '`inbox` must be an inbox'],
  ['createClient', [{ ...service, baseUrl: 'localhost' }], '`baseUrl` must be'],
  ['createClient', [{ ...service, fetch: 'node-fetch' }], '`fetch` must be a function'],
  ['toCronRoute', [{ pollOnce: method }, { secret: ' ' }], '`secret` must be'],
  ['createSandbox', [{ maxAttempts: 'many' }], '`maxAttempts` must'],
  ['createInspector', [], 'the options must be an object'],
  ['createInspector', [{ source }], '`authorize` must be a function'],
  ['createInspector', [{ source, authorize: true }], '`authorize` must be a function'],
  ['createInspector', [{ authorize: method }], '`source` must be a source'],
  [
    'createInspector',
    [{ source, authorize: method, actions: ['restart'] }],
    '`actions.0` must be one of resend',
  ],
  ['fromInbox', [{}, { name: 'app' }], 'the first argument must be an inbox, such as sqliteInbox()'],
  ['fromInbox', [memoryInbox()], 'the options must be an object'],
  ['fromInbox', [memoryInbox(), {}], '`name` must be a string'],
  ['fromInbox', [memoryInbox(), { name: 'app', pollIntervalMs: 1 }], '`pollIntervalMs` must be at least 100'],
  ['fromInbox', [memoryInbox(), { name: 'app', run: 'now' }], '`run` must be a function'],

  ['toFetchHandler', [receiver, { waitUntil: Promise.resolve() }], '`waitUntil` must be a function'],
  ['toNextRoute', [receiver, { after: true }], '`after` must be a function'],

  ['memoryInbox', [{ capacity: 0 }], '`capacity` must be an integer'],

  ['sqliteInbox', [':memory:', { busyTimeoutMs: -1 }], '`busyTimeoutMs` must be an integer'],
  ['sqliteInbox', [], '`file` must be a path, or a connection from node:sqlite'],
  ['sqliteInbox', [''], '`file` must be a path, or a connection from node:sqlite'],
  ['sqliteInbox', [{ exec: method }], '`file` must be a path, or a connection from node:sqlite'],

  ['durableObjectInbox', [storage, { runtime: { now: 7 } }], '`runtime` must be an object with any of'],

  ['postgresInbox', [poolWithClients, { transactional: 'yes' }], '`transactional` must be true or false'],
  ['postgresInbox', [pool, { schema: 'a-b' }], '`schema` must be a name with up to 63 letters'],
  ['postgresInbox', [pool, 'stablehooks'], 'the options must be an object'],
  ['postgresInbox', [], '`pool` must be a Pool from pg'],
  ['postgresInbox', ['postgres://localhost'], '`pool` must be a Pool from pg'],
  ['postgresInbox', [postgresJs], 'a PGlite, or your data layer wrapped in fromPostgresJs(sql)'],

  ['postgresInbox', [neonHttp, { transactional: true }], 'for Neon, pass a Pool from Neon'],
  [
    'postgresInbox',
    [fromDrizzle(drizzleNeonHttp(neonHttp)), { transactional: true }],
    'for Neon, pass a Pool from Neon',
  ],

  ['postgresMigrations', [{ schema: '' }], '`schema` must be a name with up to 63 letters'],

  ['mysqlInbox', [mysqlPool, { prefix: 'a-b' }], '`prefix` must be '],
  ['mysqlInbox', [pool], '`pool` must be a pool from mysql2/promise (createPool)'],
  ['mysqlMigrations', [{ prefix: '' }], '`prefix` must be '],
  ['migrateMysql', [mysqlPool, { prefix: '1st' }], '`prefix` must be '],
  ['migrateMysql', ['mysql://localhost'], '`pool` must be a pool from mysql2/promise (createPool)'],

  ['health', [receiver], '`inbox` must be an inbox'],
  ['toHealthRoutes', [{ readNote: method }], '`inbox` must be an inbox'],
  ['health', [memoryInbox(), { dueMs: -1 }], '`dueMs` must be an integer from 0'],
  ['toHealthRoutes', [memoryInbox(), { maxDead: 0.5 }], '`maxDead` must be an integer from 0'],

  ['migratePostgres', [pool, { schema: '1st' }], '`schema` must be a name with up to 63 letters'],
  ['migratePostgres', [{ schema: 'hooks' }], '`pool` must be a Pool from pg'],

  ['redisInbox', [upstash, { prefix: 'a{b' }], '`prefix` must be a non-empty string without braces'],
  [
    'redisInbox',
    [],
    '`redis` must be fromIoredis(client), fromNodeRedis(client), or a client from @upstash/redis',
  ],
  ['redisInbox', [nodeRedis], '`redis` must be fromIoredis(client), fromNodeRedis(client)'],

  ['pgBossProcessor', [boss, memoryInbox()], '`receiver` must be a receiver'],
  ['bullmqProcessor', [async () => receiver], '`receiver` must be a receiver'],
  ['pgBossQueue', [boss, { timeoutMs: 0 }], '`timeoutMs` must be an integer'],
  ['pgBossQueue', [boss, { queue: '' }], '`queue` must be a non-empty string'],

  ['bullmqQueue', [queue, { timeoutMs: 0 }], '`timeoutMs` must be an integer'],
  ['bullmqQueue', [queue, { timeoutMs: 2 ** 31 }], '`timeoutMs` must be an integer'],
];

test.each(refused)('%s refuses the arguments %j: %s', async (name, args, message) => {
  // migratePostgres rejects; the others throw.
  const error = await (async () => factories[name]?.(...args))().catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ code: 'ERR_CONFIG_INVALID' });
  expect(String(error)).toContain(`${name}: `);
  expect(String(error)).toContain(message);
});

/** Factories that take options: valid arguments before them, and options that must be given. */
const optional: readonly {
  readonly name: string;
  readonly first?: readonly unknown[];
  readonly given?: object;
}[] = [
  { name: 'createReceiver', given: required },
  { name: 'createPoller', given: { client, receiver } },
  { name: 'reconcile', given: books },
  { name: 'createClient', given: service },
  { name: 'createSandbox' },
  { name: 'createInspector', given: { source, authorize: method } },
  { name: 'fromInbox', first: [memoryInbox()], given: { name: 'app' } },
  { name: 'toCronRoute', first: [{ pollOnce: method }], given: { secret: 'cron' } },
  { name: 'toFetchHandler', first: [receiver] },
  { name: 'toNextRoute', first: [receiver] },
  { name: 'memoryInbox' },
  { name: 'durableObjectInbox', first: [storage] },
  { name: 'sqliteInbox', first: [new Database(':memory:')] },
  { name: 'postgresInbox', first: [pool] },
  { name: 'postgresMigrations' },
  { name: 'mysqlInbox', first: [mysqlPool] },
  { name: 'mysqlMigrations' },
  { name: 'health', first: [memoryInbox()] },
  { name: 'toHealthRoutes', first: [memoryInbox()] },
  { name: 'migratePostgres', first: [{ query: async () => ({ rows: [] }) }] },
  { name: 'redisInbox', first: [upstash] },
  { name: 'pgBossQueue', first: [boss] },
  { name: 'bullmqQueue', first: [queue] },
];

/** The options that the factory lists when it refuses an unknown one, which is undefined. */
async function listedOptions({ name, first = [], given }: (typeof optional)[number]) {
  const made = (async () => factories[name]?.(...first, { ...given, misspelt: undefined }))();
  const error: unknown = await made.catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ code: 'ERR_CONFIG_INVALID' });
  const [said, listed = ''] = String(error).split('. Valid options are ');
  expect(said).toMatch(`${name}: unknown option \`misspelt\``);
  return listed.slice(0, -1).split(', ');
}

test.each(optional)(
  '$name refuses an unknown option, even if it is undefined, and uses the default of its own ones that are',
  async (each) => {
    const { name, first = [], given } = each;
    const names = await listedOptions(each);
    expect(names.join()).toMatch(/\w/);
    if (given === undefined) {
      await factories[name]?.(...first);
      await factories[name]?.(...first, undefined);
    }
    await factories[name]?.(...first, {
      ...Object.fromEntries(names.map((option) => [option, undefined])),
      ...given,
    });
  },
);

test.each([...optional, { name: 'findOwed', given: owed }].filter(({ given }) => given !== undefined))(
  '$name names each required option that is left out',
  async ({ name, first = [], given }) => {
    for (const option of Object.keys(given ?? {})) {
      const call = async () => factories[name]?.(...first, { ...given, [option]: undefined });
      const error = await call().catch((thrown: unknown) => thrown);
      expect(error, option).toMatchObject({ code: 'ERR_CONFIG_INVALID' });
      expect(String(error)).toContain(`${name}: \`${option}\` must be `);
    }
  },
);

/** What takes no options of its own: it is called per event, or for authors. */
const others = [
  'createdAtMs',
  'createFetchHandler',
  'encodeEvent',
  'describeGap',
  'getReceiverToken',
  'InjectReceiver',
  'isDateTime',
  'isEventType',
  'isKnownEvent',
  'isSameElement',
  'logOutcome',
  'normalizeAmount',
  // Refusals of Nest are in adapters/wiring-nest.test.ts, as Nest reads the options when it creates the app.
  'OnEvent',
  'StablehooksModule',
  'parseEvent',
  'provenSpan',
  'readPollState',
  // Its options are those of `inbox.list`, which refuses others.
  'recordPages',
  'sameAmount',
  'sign',
  'toWebhookResponse',
  'verifySignature',
  'writePollState',
  // The compiler checks what they adapt.
  ...[
    'fromDrizzle',
    'fromIoredis',
    'fromKnex',
    'fromKysely',
    'fromNodeRedis',
    'fromPostgresJs',
    'fromPrisma',
    'fromTypeOrm',
  ],
  // adapters/receiver-source.test.ts refuses other values than receivers.
  ...['toExpressHandler', 'toFastifyPlugin', 'toLambdaHandler', 'toNextApiRoute', 'toNodeHandler'],
];

test('the tables above hold every factory that the package exports', () => {
  const functions = exported
    .flatMap((module) => Object.entries(module))
    .filter(([name, value]) => typeof value === 'function' && !/Error$|^RetryLater$/.test(name))
    .map(([name]) => name);
  const covered = new Set([...refused.map(([name]) => name.split('.')[0]), 'createSandbox', ...others]);
  expect([...new Set(functions)].filter((name) => !covered.has(name))).toEqual([]);
});

/** The section that shows all options of a factory, with their defaults. */
const sections: readonly (readonly [name: string, page: string, heading: string])[] = [
  ['createClient', 'client', 'Options'],
  ['createPoller', 'catch-up', 'Options'],
  ['createReceiver', 'frameworks', 'Options of `createReceiver`'],
  ['reconcile', 'reconcile', 'Options'],
];

test.each(sections)('the options of %s are those that docs/%s.md shows', async (name, page, heading) => {
  const [shown = ''] = blocksOf(sectionOf(textOf(`docs/${page}.md`), heading), 'ts');
  const documented = [...shown.matchAll(/^ {2}(\w+)[:,]/gm)].map(([, option]) => option);
  const each = optional.find((factory) => factory.name === name);
  expect(documented.sort()).toEqual(each && (await listedOptions(each)).sort());
});

test.each([
  ['a pool that lends clients', poolWithClients],
  ['a pool that runs transactions itself', poolWithTransactions],
  ['fromPostgresJs(sql)', fromPostgresJs(postgresJs)],
])('postgresInbox has transactions over %s', (_, transactional) => {
  expect(factories['postgresInbox']?.(transactional, { transactional: true })).toHaveProperty('transaction');
});

test.each([
  ['a client of @upstash/redis', new Upstash({ url: 'http://localhost:1', token: 'x' })],
  ['fromIoredis(client)', fromIoredis(ioredis)],
  ['fromNodeRedis(client)', fromNodeRedis(nodeRedis)],
])('redisInbox accepts %s', (_, client) => {
  expect(redisInbox(client).durable).toBe(true);
});
