import { Redis as Upstash } from '@upstash/redis';
import Database from 'libsql';
import { memoryInbox } from 'stablehooks';
import {
  fromPostgresJs,
  migratePostgres,
  postgresInbox,
  postgresMigrations,
} from 'stablehooks/inboxes/postgres';
import { fromIoredis, fromNodeRedis, redisInbox } from 'stablehooks/inboxes/redis';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { bullmqProcessor, bullmqQueue } from 'stablehooks/queues/bullmq';
import { pgBossProcessor, pgBossQueue } from 'stablehooks/queues/pg-boss';
import { expect, test } from 'vitest';

const method = async () => {
  throw new Error('A factory must not use its arguments before the first event.');
};
const pool = { query: method };
const poolWithClients = { query: method, connect: method };
const poolWithTransactions = { query: method, transaction: method };
const upstash = { eval: method, evalsha: method };
const ioredis = { eval: method, evalsha: method, defineCommand: method };
const nodeRedis = { eval: method, evalSha: method };
const postgresJs = Object.assign(() => undefined, { unsafe: method, begin: method });
const boss = { send: method, getJobById: method, deleteJob: method, complete: method };
const queue = { add: method, getJobState: method, remove: method };
const receiver = { handle: method };

/** A factory that is called with arguments that its types refuse. */
type Factory = (...args: readonly unknown[]) => unknown;

const untyped =
  (factory: (...args: never[]) => unknown): Factory =>
  (...args) =>
    factory(...(args as never[]));

const factories = {
  bullmqProcessor: untyped(bullmqProcessor),
  bullmqQueue: untyped(bullmqQueue),
  fromIoredis: untyped(fromIoredis),
  fromNodeRedis: untyped(fromNodeRedis),
  fromPostgresJs: untyped(fromPostgresJs),
  memoryInbox: untyped(memoryInbox),
  migratePostgres: untyped(migratePostgres),
  pgBossProcessor: untyped(pgBossProcessor),
  pgBossQueue: untyped(pgBossQueue),
  postgresInbox: untyped(postgresInbox),
  postgresMigrations: untyped(postgresMigrations),
  redisInbox: untyped(redisInbox),
  sqliteInbox: untyped(sqliteInbox),
};
type FactoryName = keyof typeof factories;

/** Arguments and what the message says after the name of the factory. */
const refused: readonly (readonly [FactoryName, args: readonly unknown[], message: string])[] = [
  ['memoryInbox', [{ capacitee: 5 }], 'unknown option `capacitee`. Did you mean `capacity`?'],
  ['memoryInbox', [{ capacity: 0 }], '`capacity` must be an integer'],
  ['memoryInbox', [{ now: 7 }], '`now` must be a function'],

  [
    'sqliteInbox',
    [':memory:', { busyTimeout: 1 }],
    'unknown option `busyTimeout`. Did you mean `busyTimeoutMs`?',
  ],
  ['sqliteInbox', [':memory:', { busyTimeoutMs: -1 }], '`busyTimeoutMs` must be an integer'],
  ['sqliteInbox', [], '`file` must be a path, or a connection of node:sqlite'],
  ['sqliteInbox', [''], '`file` must be a path, or a connection of node:sqlite'],
  ['sqliteInbox', [{ exec: method }], '`file` must be a path, or a connection of node:sqlite'],

  [
    'postgresInbox',
    [poolWithClients, { transactonal: true }],
    'unknown option `transactonal`. Did you mean `transactional`?',
  ],
  ['postgresInbox', [poolWithClients, { transactional: 'yes' }], '`transactional` must be true or false'],
  ['postgresInbox', [pool, { schema: 'a-b' }], '`schema` must be letters, digits and underscores'],
  ['postgresInbox', [pool, { schema: null }], '`schema` must be letters, digits and underscores'],
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

  ['postgresMigrations', [{ shema: 'hooks' }], 'unknown option `shema`. Did you mean `schema`?'],
  ['postgresMigrations', [{ schema: '' }], '`schema` must be letters, digits and underscores'],

  ['migratePostgres', [pool, { shema: 'hooks' }], 'unknown option `shema`. Did you mean `schema`?'],
  ['migratePostgres', [pool, { schema: '1st' }], '`schema` must be letters, digits and underscores'],
  ['migratePostgres', [{ schema: 'hooks' }], '`pool` must be an object with the method query(text, values)'],

  ['fromPostgresJs', [], '`sql` must be the `sql` of postgres.js'],
  ['fromPostgresJs', [pool], '`sql` must be the `sql` of postgres.js'],

  ['redisInbox', [upstash, { durabel: false }], 'unknown option `durabel`. Did you mean `durable`?'],
  ['redisInbox', [upstash, { durable: 'no' }], '`durable` must be true or false'],
  ['redisInbox', [upstash, { prefix: 'a{b' }], '`prefix` must be a string without braces'],
  ['redisInbox', [upstash, { prefix: 7 }], '`prefix` must be a string without braces'],
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

  ['pgBossQueue', [boss, { timeoutMS: 1 }], 'unknown option `timeoutMS`. Did you mean `timeoutMs`?'],
  ['pgBossQueue', [boss, { timeoutMs: 0 }], '`timeoutMs` must be an integer'],
  ['pgBossQueue', [boss, { queue: '' }], '`queue` must be a string that is not empty'],
  ['pgBossQueue', [], '`boss` must be a PgBoss of pg-boss 10'],
  ['pgBossQueue', [{ complete: method }], '`boss` must be a PgBoss of pg-boss 10'],
  ['pgBossProcessor', [undefined, receiver], '`boss` must be a PgBoss of pg-boss 10'],
  ['pgBossProcessor', [boss], '`receiver` must be a receiver'],
  ['pgBossProcessor', [boss, { receiver }], '`receiver` must be a receiver'],

  ['bullmqQueue', [queue, { timeoutMS: 1 }], 'unknown option `timeoutMS`. Did you mean `timeoutMs`?'],
  ['bullmqQueue', [queue, { timeoutMs: 0 }], '`timeoutMs` must be an integer'],
  ['bullmqQueue', [queue, { timeoutMs: 2 ** 31 }], '`timeoutMs` must be an integer'],
  ['bullmqQueue', [queue, { timeoutMs: Number.NaN }], '`timeoutMs` must be an integer'],
  ['bullmqQueue', [], '`queue` must be a Queue of bullmq'],
  ['bullmqQueue', ['webhooks'], '`queue` must be a Queue of bullmq'],
  ['bullmqProcessor', [], '`receiver` must be a receiver'],
];

test.each(refused)('%s refuses the arguments %j: %s', async (name, args, message) => {
  // migratePostgres rejects; the others throw.
  const error = await (async () => factories[name](...args))().catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ code: 'ERR_CONFIG_INVALID' });
  expect(String(error)).toContain(`${name}: `);
  expect(String(error)).toContain(message);
});

/** Factories that take options, with valid first arguments and the names of all options. */
const optional: readonly (readonly [
  FactoryName,
  first: () => readonly unknown[],
  names: readonly string[],
])[] = [
  ['memoryInbox', () => [], ['capacity', 'now']],
  ['sqliteInbox', () => [new Database(':memory:')], ['busyTimeoutMs', 'now']],
  ['postgresInbox', () => [pool], ['schema', 'transactional']],
  ['postgresMigrations', () => [], ['schema']],
  ['migratePostgres', () => [{ query: async () => ({ rows: [] }) }], ['schema']],
  ['redisInbox', () => [upstash], ['prefix', 'durable']],
  ['pgBossQueue', () => [boss], ['queue', 'timeoutMs']],
  ['bullmqQueue', () => [queue], ['timeoutMs']],
];

test.each(optional)('%s uses the default of an option that is undefined', async (name, first, names) => {
  const factory = factories[name];
  await factory(...first());
  await factory(...first(), undefined);
  await factory(...first(), Object.fromEntries(names.map((option) => [option, undefined])));
});

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
