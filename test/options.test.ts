import { Redis as Upstash } from '@upstash/redis';
import Database from 'libsql';
import { cachedSecret, createReceiver, memoryInbox } from 'stablehooks';
import { acknowledgeGap, createPoller, toCronRoute } from 'stablehooks/catch-up';
import { createClient } from 'stablehooks/client';
import { toExpressHandler } from 'stablehooks/express';
import { toFastifyPlugin } from 'stablehooks/fastify';
import { toFetchHandler } from 'stablehooks/fetch';
import { durableObjectInbox } from 'stablehooks/inboxes/durable-object';
import {
  fromDrizzle,
  fromKnex,
  fromKysely,
  fromPostgresJs,
  fromPrisma,
  fromTypeOrm,
  migratePostgres,
  postgresInbox,
  postgresMigrations,
} from 'stablehooks/inboxes/postgres';
import { fromIoredis, fromNodeRedis, redisInbox } from 'stablehooks/inboxes/redis';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { toLambdaHandler } from 'stablehooks/lambda';
import { toNextApiRoute, toNextRoute } from 'stablehooks/next';
import { toNodeHandler } from 'stablehooks/node';
import { openTelemetry } from 'stablehooks/opentelemetry';
import { bullmqProcessor, bullmqQueue } from 'stablehooks/queues/bullmq';
import { pgBossProcessor, pgBossQueue } from 'stablehooks/queues/pg-boss';
import { reconcile } from 'stablehooks/reconcile';
import { toSqsHandler } from 'stablehooks/sqs';
import { webhookEventSchema } from 'stablehooks/zod';
import { createInspector, fromInbox } from 'stablehooks-kit/inspector';
import { createSandbox } from 'stablehooks-kit/sandbox';
import { expect, test } from 'vitest';
import manifest from '../package.json' with { type: 'json' };
import { sectionOf } from './project/markdown.js';
import { textOf } from './project/source.js';

const method = async () => {
  throw new Error('A factory must not use its arguments before the first event.');
};
const pool = { query: method };
const poolWithClients = { query: method, connect: method };
const poolWithTransactions = { query: method, transaction: method };
const upstash = { eval: method, evalsha: method };
const ioredis = { eval: method, evalsha: method, defineCommand: method };
const nodeRedis = { eval: method, evalSha: method };
const storage = {
  sql: { exec: () => ({ toArray: () => [] }) },
  transactionSync: (step: () => unknown) => step(),
};
const postgresJs = Object.assign(() => undefined, { unsafe: method, begin: method });
const boss = { send: method, getJobById: method, deleteJob: method, getQueue: method, complete: method };
const queue = { add: method, getJobState: method, remove: method };
const receiver = {
  receive: method,
  accept: method,
  record: method,
  redrive: method,
  handle: method,
  inbox: memoryInbox(),
};
const client = { events: { list: method, listWithProblems: method } };
const day = '2026-03-01T00:00:00Z';
const gap = { from: day, until: day, openedAt: day };
const emptyList = {
  events: { listWithProblems: async () => ({ events: [], problems: [], size: 0, servedAt: null }) },
};
const required = { secret: 'whsec_test', handlers: {} };
const books = { client: emptyList, inbox: memoryInbox(), ledger: [], since: new Date(0) };
const source = { name: 'app', subscribe: () => () => undefined };
const service = { baseUrl: 'http://localhost:1', token: 'token' };

/** A factory that is called with arguments that its types refuse. */
type Factory = (...args: readonly unknown[]) => unknown;

const untyped =
  (factory: (...args: never[]) => unknown): Factory =>
  (...args) =>
    factory(...(args as never[]));

const factories = {
  bullmqProcessor: untyped(bullmqProcessor),
  bullmqQueue: untyped(bullmqQueue),
  cachedSecret: untyped(cachedSecret),
  createClient: untyped(createClient),
  acknowledgeGap: untyped(acknowledgeGap),
  createInspector: untyped(createInspector),
  createPoller: untyped(createPoller),
  createReceiver: untyped(createReceiver),
  createSandbox: untyped(createSandbox),
  durableObjectInbox: untyped(durableObjectInbox),
  fromInbox: untyped(fromInbox),
  fromIoredis: untyped(fromIoredis),
  fromNodeRedis: untyped(fromNodeRedis),
  fromDrizzle: untyped(fromDrizzle),
  fromKnex: untyped(fromKnex),
  fromKysely: untyped(fromKysely),
  fromPostgresJs: untyped(fromPostgresJs),
  fromPrisma: untyped(fromPrisma),
  fromTypeOrm: untyped(fromTypeOrm),
  openTelemetry: untyped(openTelemetry),
  memoryInbox: untyped(memoryInbox),
  migratePostgres: untyped(migratePostgres),
  pgBossProcessor: untyped(pgBossProcessor),
  pgBossQueue: untyped(pgBossQueue),
  postgresInbox: untyped(postgresInbox),
  postgresMigrations: untyped(postgresMigrations),
  reconcile: untyped(reconcile),
  redisInbox: untyped(redisInbox),
  sqliteInbox: untyped(sqliteInbox),
  toCronRoute: untyped(toCronRoute),
  toExpressHandler: untyped(toExpressHandler),
  toFastifyPlugin: untyped(toFastifyPlugin),
  toFetchHandler: untyped(toFetchHandler),
  toLambdaHandler: untyped(toLambdaHandler),
  toNextApiRoute: untyped(toNextApiRoute),
  toNextRoute: untyped(toNextRoute),
  toNodeHandler: untyped(toNodeHandler),
  toSqsHandler: untyped(toSqsHandler),
  webhookEventSchema: untyped(webhookEventSchema),
};
type FactoryName = keyof typeof factories;

/** Arguments and what the message says after the name of the factory. */
const refused: readonly (readonly [FactoryName, args: readonly unknown[], message: string])[] = [
  ['createReceiver', [], 'the options must be an object'],
  [
    'createReceiver',
    [{ handlers: {} }],
    '`secret` must be given: check the environment variable that it comes from.',
  ],
  ['createReceiver', [{ ...required, inbox: {} }], '`inbox` must be an inbox'],
  ['createReceiver', [{ ...required, use: {} }], '`use` must be a list of layers'],
  ['createReceiver', [{ ...required, runtime: { now: 0 } }], '`runtime` must be an object with some of'],
  ['memoryInbox', [{ runtime: { time: method } }], '`runtime` must be an object with some of'],
  ['createPoller', [{ client, receiver, runtime: null }], '`runtime` must be an object with some of'],
  ['createSandbox', [{ runtime: 1 }], '`runtime` must be an object'],
  ['openTelemetry', [{ tracerProvider: {} }], '`tracerProvider` must be a tracer provider'],
  ['openTelemetry', [{ meterProvider: method }], '`meterProvider` must be a meter provider'],
  ['openTelemetry', [{ attributes: 'eu' }], '`attributes` must be an object'],
  ['openTelemetry', [{ inboxMetrics: 'no' }], '`inboxMetrics` must be'],
  ['cachedSecret', [method], 'the options must be an object'],
  ['cachedSecret', [method, {}], '`ttlMs` must be an integer from 1'],
  ['cachedSecret', [undefined, { ttlMs: 1 }], '`fetchSecret` must be a function'],
  ['cachedSecret', [(_key: string) => '', { ttlMs: 1 }], '`key` must be a function'],
  ['toCronRoute', [undefined, { secret: 'cron' }], '`poller` must be a poller'],
  [
    'createReceiver',
    [{ ...required, inbox: { ...memoryInbox(), durable: undefined } }],
    '`inbox` must be an inbox',
  ],
  ['createPoller', [{ client, receiver: {} }], '`receiver` must be a receiver'],
  ['acknowledgeGap', [{}, gap, { by: 'ops', reason: 'checked' }], '`inbox` must be an inbox'],
  ['acknowledgeGap', [memoryInbox(), new Date(), { by: 'ops', reason: 'checked' }], '`gap` must be a gap'],
  [
    'acknowledgeGap',
    [memoryInbox(), gap, { by: 'ops' }],
    '`reason` must be a string of 1 to 1000 characters',
  ],
  ['createPoller', [{ client: {}, receiver }], '`client` must be a client'],
  ['createPoller', [{ client, receiver, since: 'today' }], '`since` must be a valid Date'],
  ['reconcile', [{ ...books, ledger: 7 }], '`ledger` must be an iterable'],
  ['reconcile', [{ ...books, ledgerTypes: ['transfer.setled'] }], '`ledgerTypes` must be an array'],
  ['createClient', [{ ...service, baseUrl: 'localhost' }], '`baseUrl` must be'],
  ['createClient', [{ ...service, fetch: 'node-fetch' }], '`fetch` must be a function'],
  ['toCronRoute', [{ pollOnce: method }, { secret: ' ' }], '`secret` must be'],
  ['webhookEventSchema', [{ 'transfer.settled': { amount: 'string' } }], '`transfer.settled` must be'],
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
  [
    'fromInbox',
    [memoryInbox(), { name: 'postgres://app:hunter2@db/app' }],
    '`name` must not contain a password',
  ],
  [
    'fromInbox',
    [memoryInbox(), { name: 'postgres://db/app?password=hunter2' }],
    '`name` must not contain a password',
  ],
  ['fromInbox', [memoryInbox(), { name: 'app', pollIntervalMs: 1 }], '`pollIntervalMs` must be at least 100'],
  ['fromInbox', [memoryInbox(), { name: 'app', run: 'now' }], '`run` must be a function'],
  ['toExpressHandler', [], '`receiver` must be a receiver'],
  ['toFastifyPlugin', [{}], '`receiver` must be a receiver'],
  ['toFetchHandler', [null], '`receiver` must be a receiver'],
  ['toLambdaHandler', [], '`receiver` must be a receiver'],
  ['toNextApiRoute', [], '`receiver` must be a receiver'],
  ['toNextRoute', [], '`receiver` must be a receiver'],
  ['toNodeHandler', [required], '`receiver` must be a receiver'],
  ['toSqsHandler', [], '`receiver` must be a receiver'],

  ['toFetchHandler', [receiver, { waitUntil: Promise.resolve() }], '`waitUntil` must be a function'],
  ['toNextRoute', [receiver, { after: true }], '`after` must be a function'],

  ['memoryInbox', [{ capacity: 0 }], '`capacity` must be an integer'],

  ['sqliteInbox', [':memory:', { busyTimeoutMs: -1 }], '`busyTimeoutMs` must be an integer'],
  ['sqliteInbox', [], '`file` must be a path, or a connection of node:sqlite'],
  ['sqliteInbox', [''], '`file` must be a path, or a connection of node:sqlite'],
  ['sqliteInbox', [{ exec: method }], '`file` must be a path, or a connection of node:sqlite'],

  ['durableObjectInbox', [storage, { runtime: { now: 7 } }], '`runtime` must be an object with some of'],
  ['durableObjectInbox', [], '`storage` must be the `ctx.storage` of a Durable Object'],
  ['durableObjectInbox', [storage.sql], '`storage` must be the `ctx.storage` of a Durable Object'],

  ['postgresInbox', [poolWithClients, { transactional: 'yes' }], '`transactional` must be true or false'],
  ['postgresInbox', [pool, { schema: 'a-b' }], '`schema` must be letters, digits and underscores'],
  ['postgresInbox', [pool, 'stablehooks'], 'the options must be an object'],
  ['postgresInbox', [], '`pool` must be an object with the method query(text, values): a Pool of pg'],
  ['postgresInbox', ['postgres://localhost'], '`pool` must be an object with the method query(text, values)'],
  ['postgresInbox', [postgresJs], 'a PGlite, or fromPostgresJs(sql)'],
  [
    'postgresInbox',
    [pool, { transactional: true }],
    '`pool` must be able to open transactions, because `transactional` is true',
  ],
  [
    'postgresInbox',
    [{ connect: method }, { transactional: true }],
    '`pool` must be able to open transactions',
  ],

  ['postgresMigrations', [{ schema: '' }], '`schema` must be letters, digits and underscores'],

  ['migratePostgres', [pool, { schema: '1st' }], '`schema` must be letters, digits and underscores'],
  ['migratePostgres', [{ schema: 'hooks' }], '`pool` must be an object with the method query(text, values)'],

  ['fromDrizzle', [pool], 'fromDrizzle(drizzle(pool))'],
  ['fromKnex', [pool], 'fromKnex(knex('],
  ['fromKysely', [pool], 'fromKysely(new Kysely('],
  ['fromPrisma', [pool], 'fromPrisma(new PrismaClient('],
  ['fromTypeOrm', [pool], 'fromTypeOrm(dataSource)'],
  ['fromPostgresJs', [], 'fromPostgresJs(postgres(url))'],
  ['fromPostgresJs', [pool], 'fromPostgresJs(postgres(url))'],

  ['redisInbox', [upstash, { prefix: 'a{b' }], '`prefix` must be a string without braces'],
  [
    'redisInbox',
    [],
    '`redis` must be fromIoredis(client), fromNodeRedis(client), or a client of @upstash/redis',
  ],
  ['redisInbox', [nodeRedis], '`redis` must be fromIoredis(client), fromNodeRedis(client)'],
  ['redisInbox', [ioredis], '`redis` must be fromIoredis(client), fromNodeRedis(client)'],

  ['fromIoredis', [], '`client` must be a client or cluster of ioredis'],
  ['fromIoredis', [nodeRedis], '`client` must be a client or cluster of ioredis'],
  ['fromNodeRedis', [], '`client` must be a client, pool or cluster of node-redis'],
  ['fromNodeRedis', [ioredis], '`client` must be a client, pool or cluster of node-redis'],

  ['pgBossQueue', [boss, { timeoutMs: 0 }], '`timeoutMs` must be an integer'],
  ['pgBossQueue', [boss, { queue: '' }], '`queue` must be a string that is not empty'],
  ['pgBossQueue', [], '`boss` must be a PgBoss of pg-boss 10'],
  ['pgBossQueue', [{ complete: method }], '`boss` must be a PgBoss of pg-boss 10'],
  ['pgBossProcessor', [undefined, receiver], '`boss` must be a PgBoss of pg-boss 10'],
  ['pgBossProcessor', [boss], '`receiver` must be a receiver'],
  ['pgBossProcessor', [boss, { receiver }], '`receiver` must be a receiver'],
  ['pgBossProcessor', [boss, receiver], 'a `queue` needs a durable `inbox`'],

  ['bullmqQueue', [queue, { timeoutMs: 0 }], '`timeoutMs` must be an integer'],
  ['bullmqQueue', [queue, { timeoutMs: 2 ** 31 }], '`timeoutMs` must be an integer'],
  ['bullmqQueue', [], '`queue` must be a Queue of bullmq'],
  ['bullmqQueue', ['webhooks'], '`queue` must be a Queue of bullmq'],
  ['bullmqProcessor', [], '`receiver` must be a receiver'],
  ['bullmqProcessor', [receiver], 'a `queue` needs a durable `inbox`'],
];

test.each(refused)('%s refuses the arguments %j: %s', async (name, args, message) => {
  // migratePostgres rejects; the others throw.
  const error = await (async () => factories[name](...args))().catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ code: 'ERR_CONFIG_INVALID' });
  expect(String(error)).toContain(`${name}: `);
  expect(String(error)).toContain(message);
});

/** Factories that take options: valid arguments before them, options that must be given, and the names of all. */
const optional: readonly {
  readonly name: FactoryName;
  readonly first?: readonly unknown[];
  readonly given?: object;
  readonly names: readonly string[];
}[] = [
  {
    name: 'createReceiver',
    given: required,
    names: [
      'secret',
      'handlers',
      'inbox',
      'signature',
      'queue',
      'answer',
      'orderingKey',
      'maxConcurrency',
      'onUnknown',
      'logger',
      'onOutcome',
      'use',
      'maxBodyBytes',
      'bodyTimeoutMs',
      'secretTimeoutMs',
      'inboxTimeoutMs',
      'leaseMs',
      'handlerTimeoutMs',
      'maxAttempts',
      'runtime',
    ],
  },
  {
    name: 'cachedSecret',
    first: [method],
    given: { ttlMs: 1 },
    names: ['ttlMs', 'maxStaleMs', 'timeoutMs', 'maxEntries', 'key', 'logger', 'runtime'],
  },
  {
    name: 'createPoller',
    given: { client, receiver },
    names: [
      'client',
      'receiver',
      'limit',
      'maxLimit',
      'lagMs',
      'disorderMs',
      'intervalMs',
      'leaseMs',
      'since',
      'backfill',
      'logger',
      'onReport',
      'onGap',
      'runtime',
    ],
  },
  {
    name: 'reconcile',
    given: books,
    names: [
      'until',
      'compare',
      'ledgerTypes',
      'copiedAt',
      'daily',
      'amounts',
      'dryRun',
      'limit',
      'maxLimit',
      'lagMs',
      'disorderMs',
      'signal',
      'onFinding',
      'onProgress',
      'runtime',
    ],
  },
  {
    name: 'createClient',
    given: service,
    names: [
      'baseUrl',
      'token',
      'timeoutMs',
      'retries',
      'baseWaitMs',
      'maxWaitMs',
      'maxBodyBytes',
      'fetch',
      'onRetry',
      'runtime',
    ],
  },
  {
    name: 'createSandbox',
    names: [
      'token',
      'secret',
      'seed',
      'endpoints',
      'faults',
      'clock',
      'startsAt',
      'settleTimeoutMs',
      'initialBalance',
      'movementMs',
      'timeoutMs',
      'maxAttempts',
      'retryBaseMs',
      'retryMaxMs',
      'concurrency',
      'maxLimit',
      'maxBodyBytes',
      'maxEvents',
      'maxAttemptsKept',
      'stateFile',
      'saveAfterMs',
    ],
  },
  {
    name: 'createInspector',
    given: { source, authorize: method },
    names: ['source', 'actions', 'authorize', 'basePath'],
  },
  {
    name: 'fromInbox',
    first: [memoryInbox()],
    given: { name: 'app' },
    names: ['name', 'pollIntervalMs', 'run', 'lastReport'],
  },
  {
    name: 'toCronRoute',
    first: [{ pollOnce: method }],
    given: { secret: 'cron' },
    names: ['secret', 'logger'],
  },
  { name: 'toFetchHandler', first: [receiver], names: ['waitUntil'] },
  { name: 'toNextRoute', first: [receiver], names: ['after'] },
  { name: 'webhookEventSchema', names: ['transfer.settled', 'redeem.failed'] },
  { name: 'memoryInbox', names: ['capacity', 'logger', 'runtime'] },
  { name: 'durableObjectInbox', first: [storage], names: ['runtime'] },
  { name: 'sqliteInbox', first: [new Database(':memory:')], names: ['busyTimeoutMs', 'runtime'] },
  { name: 'postgresInbox', first: [pool], names: ['schema', 'transactional', 'runtime'] },
  { name: 'postgresMigrations', names: ['schema'] },
  { name: 'migratePostgres', first: [{ query: async () => ({ rows: [] }) }], names: ['schema'] },
  { name: 'redisInbox', first: [upstash], names: ['prefix', 'runtime'] },
  { name: 'pgBossQueue', first: [boss], names: ['queue', 'timeoutMs', 'runtime'] },
  { name: 'bullmqQueue', first: [queue], names: ['timeoutMs', 'runtime'] },
];

test.each(optional)('$name uses the default of an option that is undefined', async (each) => {
  const { name, first = [], given, names } = each;
  const factory = factories[name];
  if (given === undefined) {
    await factory(...first);
    await factory(...first, undefined);
  }
  await factory(...first, { ...Object.fromEntries(names.map((option) => [option, undefined])), ...given });
});

test.each(optional)(
  '$name refuses an unknown option, even if it is undefined, and lists its own',
  async ({ name, first = [], given, names }) => {
    const made = (async () => factories[name](...first, { ...given, misspelt: undefined }))();
    const error: unknown = await made.catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'ERR_CONFIG_INVALID' });
    const [said, listed = ''] = String(error).split('. The options are ');
    expect(said).toMatch(`${name}: unknown option \`misspelt\``);
    expect(listed.slice(0, -1).split(', ')).toEqual(expect.arrayContaining([...names]));
  },
);

/** What takes no options of its own: it is called per event, or for authors. */
const others = [
  'createdAtMs',
  'createFetchHandler',
  'decorateInbox',
  'describeGap',
  'forwardOnly',
  'getReceiverToken',
  'InjectReceiver',
  'isDateTime',
  'isEventType',
  'isKnownEvent',
  'isSameElement',
  'listGaps',
  'logOutcome',
  'normalizeAmount',
  // Refusals of Nest are in adapters/wiring-nest.test.ts, as Nest reads the options when it creates the app.
  'OnEvent',
  'StablehooksModule',
  'parseEvent',
  // Its options are those of `inbox.list`, which refuses others.
  'recordPages',
  'sameAmount',
  'sign',
  'toWebhookResponse',
  'verifySignature',
  'withPayload',
];

test('the tables above hold every factory that the package exports', async () => {
  const subpaths = Object.keys(manifest.exports).filter(
    (subpath) => !['./package.json', './openapi.yaml', './testing'].includes(subpath),
  );
  const exported = await Promise.all(
    subpaths.map(async (subpath) => Object.entries(await import(`stablehooks${subpath.slice(1)}`))),
  );
  const functions = exported
    .flat()
    .filter(([name, value]) => typeof value === 'function' && !/Error$/.test(name))
    .map(([name]) => name);
  const covered = new Set([...refused.map(([name]) => name.split('.')[0]), 'createSandbox', ...others]);
  expect([...new Set(functions)].filter((name) => !covered.has(name))).toEqual([]);
});

/** The section that has the table of all options of a factory, and arguments to which one more option is added. */
const tables: readonly (readonly [keyof typeof factories, string, string, readonly unknown[], object])[] = [
  ['cachedSecret', 'secrets', 'Caching', [method], { ttlMs: 1_000 }],
  ['createClient', 'client', 'Options', [], service],
  ['createPoller', 'catch-up', 'Options', [], { client, receiver }],
  ['createReceiver', 'frameworks', 'Options of `createReceiver`', [], required],
  ['createSandbox', 'sandbox', 'Options', [], {}],
  ['reconcile', 'reconcile', 'Options', [], books],
];

test.each(tables)(
  'the options of %s are those of its table in docs/%s.md',
  async (name, page, heading, args, options) => {
    const rows = sectionOf(textOf(`docs/${page}.md`), heading)
      .split('\n')
      .filter((line) => line.startsWith('| `'));
    const documented = rows.flatMap((row) =>
      [...(row.split('|')[1] ?? '').matchAll(/`(\w+)`/g)].map(([, option]) => option),
    );
    const call = async () => factories[name](...args, { ...options, anOptionThatNoFactoryHas: 1 });
    const { message } = await call().then(
      () => new Error('It was not refused.'),
      (error: Error) => error,
    );
    const known = /(?:The options are|Valid names:) ([\w, ]+)\.?$/.exec(message)?.[1]?.split(', ') ?? [
      message,
    ];
    expect([...documented].sort()).toEqual([...known].sort());
  },
);

test.each([
  ['a pool that lends clients', poolWithClients],
  ['a pool that runs transactions itself', poolWithTransactions],
  ['fromPostgresJs(sql)', fromPostgresJs(postgresJs)],
])('postgresInbox has transactions over %s', (_, transactional) => {
  expect(untyped(postgresInbox)(transactional, { transactional: true })).toHaveProperty('transaction');
});

test.each([
  ['a client of @upstash/redis', new Upstash({ url: 'http://localhost:1', token: 'x' })],
  ['fromIoredis(client)', fromIoredis(ioredis)],
  ['fromNodeRedis(client)', fromNodeRedis(nodeRedis)],
])('redisInbox accepts %s', (_, client) => {
  expect(redisInbox(client).durable).toBe(true);
});
