import { statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Command } from 'commander';
import type { Inbox, InboxOperations, InboxRecord, InboxState } from 'stablehooks';
import { POLL_NOTE } from 'stablehooks/catch-up';
import { type MysqlPoolLike, migrateMysql, mysqlInbox } from 'stablehooks/inboxes/mysql';
import { migratePostgres, type PgLike, postgresInbox } from 'stablehooks/inboxes/postgres';
import {
  fromIoredis,
  fromNodeRedis,
  type IoredisLike,
  type NodeRedisLike,
  type RedisLike,
  redisInbox,
} from 'stablehooks/inboxes/redis';
import { type SqliteLike, sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { recordPages } from 'stablehooks/reconcile';
import { toShellWord } from '../shell-word.js';
import { toInboxError, usageError, withErrors } from './errors.js';
import { inTime } from './in-time.js';
import { type ExitCode, keepConfidential, toPlain } from './output.js';
import { confidentialParts, hasPassword, namePlace } from './place.js';
import { addAction, type CommandContext } from './settings.js';

/** An inbox that a command has opened and must close. */
export interface OpenInbox extends Omit<Inbox, 'transaction'>, InboxOperations {
  close(): unknown;
  /** Whether it is the namespace of `catch-up` and `listen`, so no app runs its events. */
  readonly isOwn: boolean;
  /** Whether the path still names the opened file. Missing if the place is not a file. */
  isCurrent?(): boolean;
}

export interface InboxFlags {
  /** An SQLite file, a `postgres:`, `mysql:` or `redis:` URL, or `env:NAME` for the place in that variable. */
  readonly inbox: string;
  /** Its schema in Postgres, or its prefix in MySQL or Redis. */
  readonly namespace?: string;
}

/**
 * Whether `--inbox` is given, for commands that do not need it.
 *
 * @throws {CommandError} exit 2 when --namespace is given alone.
 */
export function hasInbox(flags: Partial<InboxFlags>): flags is InboxFlags {
  if (flags.inbox !== undefined) return true;
  if (flags.namespace === undefined) return false;
  throw usageError('--namespace has no effect without --inbox. Pass both.');
}

/** The flags as they are typed, for a command to paste. */
export function toInboxWords({ inbox, namespace }: InboxFlags): string {
  const where = namespace === undefined ? '' : ` --namespace ${toShellWord(namespace)}`;
  return `--inbox ${toShellWord(inbox)}${where}`;
}

/**
 * The end of the name of the namespace that `catch-up` and `listen` use. They lease the events that they forward, so in the
 * app's namespace an event that they hold could not run in the app, and their polls would move its watermark.
 */
const OWN = '_catch_up';

/** The namespace of an app that chose no other one. */
const DEFAULT_NAMESPACE = 'stablehooks';

/** The values of `--inbox`, for `--help`. */
export const INBOX_PLACE =
  'SQLite file, postgres:, mysql: or redis: URL, or env:NAME of a variable that holds it';

export function addInboxFlags(
  command: Command,
  { about = INBOX_PLACE, required = true }: { readonly about?: string; readonly required?: boolean } = {},
): Command {
  const flag = command.createOption('--inbox <location>', about).makeOptionMandatory(required);
  return command
    .addOption(flag)
    .option(
      '--namespace <name>',
      'the `schema` that the app passes to postgresInbox, or the `prefix` to mysqlInbox or redisInbox (default: stablehooks)',
    );
}

/**
 * Opens the inbox of an app, or of `catch-up` and `listen` if the flags name their namespace or a file has no other one.
 * Drivers come from the project in the current folder.
 *
 * @param unused - whether a Redis without any event is accepted. @default false
 * @throws {CommandError} exit 2 when the inbox does not exist or, in Redis, has no content; when another release wrote the
 * file; or when the driver is missing, with the package to install. Its methods reject with {@link toInboxError}.
 */
export function openInbox(flags: InboxFlags, { unused = false } = {}): Promise<OpenInbox> {
  return open(flags, { create: false, unused, namespace: flags.namespace });
}

/**
 * Opens the namespace of `catch-up` and `listen` in the place of an inbox, beside that of the app, and creates it if it does
 * not exist: the file of SQLite, or the tables. One of an older release is migrated.
 *
 * @throws {CommandError} as {@link openInbox}.
 */
export function openOwnInbox(flags: InboxFlags): Promise<OpenInbox> {
  const namespace = (flags.namespace ?? DEFAULT_NAMESPACE) + OWN;
  return open(flags, { create: true, unused: true, namespace });
}

async function open(
  { inbox: place }: InboxFlags,
  { create, unused, namespace }: Pick<OpenOptions, 'create' | 'unused' | 'namespace'>,
): Promise<OpenInbox> {
  const value = resolvePlace(place);
  if (value === place && hasPassword(place)) {
    throw usageError(
      'A password in the URL shows in the process list: put the URL into an environment variable, and pass env:NAME. A URL that cannot be read counts as one with a password.',
    );
  }
  const opened = await openPlace(value, { create, unused, namespace, name: place }).catch(
    (error: unknown) => {
      throw toInboxError(error);
    },
  );
  return withErrors(opened, toInboxError);
}

/** @throws {CommandError} exit 2 when it is empty. */
function resolvePlace(place: string): string {
  if (place === '') throw usageError('--inbox is empty. If it comes from a variable, check its value.');
  const [, variable] = /^env:(\w+)$/.exec(place) ?? [];
  const value = variable === undefined ? place : process.env[variable];
  if (value) return value;
  throw usageError(`${place}: this environment variable is missing or empty.`);
}

/** Opens an inbox for one piece of work, and closes it at its end. */
export async function withInbox<Result>(
  flags: InboxFlags,
  work: (inbox: OpenInbox) => Promise<Result>,
  options?: Parameters<typeof openInbox>[1],
): Promise<Result> {
  const inbox = await openInbox(flags, options);
  try {
    return await work(inbox);
  } finally {
    await inbox.close();
  }
}

/** Adds an action on an inbox, as `addAction` does; it is open while `run` runs. */
export function addInboxAction<Flags extends InboxFlags>(
  command: Command,
  run: (inbox: OpenInbox, context: CommandContext<Flags>) => Promise<ExitCode>,
  example: readonly string[],
): Command {
  return addAction<Flags>(
    command,
    (context) => withInbox(context.flags, (inbox) => run(inbox, context)),
    example,
  );
}

const PAGE_SIZE = 500;

/** The records of one state, as {@link recordPages} reads them. */
export async function* recordsOf(
  inbox: Pick<InboxOperations, 'list'>,
  state: InboxState,
): AsyncGenerator<InboxRecord, void, undefined> {
  for await (const page of recordPages(inbox, { state, limit: PAGE_SIZE })) yield* page;
}

interface OpenOptions {
  readonly create: boolean;
  readonly unused: boolean;
  readonly namespace: string | undefined;
  /** The place for messages, because the value of a variable can contain a password. */
  readonly name: string;
}

const OPENERS: readonly (readonly [
  scheme: RegExp,
  open: (url: string, options: OpenOptions, which: string) => Promise<OpenInbox>,
])[] = [
  [/^postgres(ql)?:/, openPostgres],
  [/^(?:mysql|mariadb):/, openMysql],
  [/^rediss?:/, openRedis],
];

async function openPlace(place: string, options: OpenOptions): Promise<OpenInbox> {
  const { create, namespace, name } = options;
  const which = name === place ? 'This URL' : name;
  for (const [scheme, openWith] of OPENERS) {
    if (scheme.test(place)) return openUrl(place, which, (url) => openWith(url, options, which));
  }
  if (/^[a-z][\w+.-]*:\/\//i.test(place)) {
    throw usageError(`${which}: an inbox is an SQLite file, or a postgres:, mysql: or redis: URL.`);
  }
  if (namespace !== undefined && namespace !== DEFAULT_NAMESPACE && namespace !== DEFAULT_NAMESPACE + OWN) {
    throw usageError(
      `${name}: an SQLite file has no namespaces but ${DEFAULT_NAMESPACE} and, of \`catch-up\` and \`listen\`, ${DEFAULT_NAMESPACE + OWN}. Leave --namespace out.`,
    );
  }
  const found = statSync(place, { throwIfNoEntry: false });
  if (found?.isDirectory())
    throw usageError(`${name}: this is a folder, and an inbox is a file. Check the path.`);
  if (found === undefined && !create)
    throw usageError(`${name}: this inbox file does not exist. Check the path.`);
  const folder = dirname(place);
  // The errors of the drivers differ, and most of them do not name the folder.
  if (found === undefined && statSync(folder, { throwIfNoEntry: false })?.isDirectory() !== true) {
    const what = name === place ? `the folder ${folder} does not exist` : 'its folder does not exist';
    throw usageError(`${name}: ${what}. Create it, or check the path.`);
  }
  const Sqlite = await findSqlite();
  const file = new Sqlite(place);
  try {
    const prefix = findNamespace(file, options);
    const db = withTables(file, prefix);
    if (!create) assertIsOfThisRelease(db, { Sqlite, name });
    const inode = () => statSync(place, { throwIfNoEntry: false })?.ino;
    const opened = inode();
    const inbox = sqliteInbox(db);
    if (!inbox.durable) {
      throw usageError(
        `${name}: this isn't a file, so SQLite keeps nothing after the end of this command. Pass the path of a file.`,
      );
    }
    return {
      ...inbox,
      isOwn: isOwnName(prefix),
      close: () => file.close(),
      isCurrent: () => inode() === opened,
    };
  } catch (error) {
    file.close();
    throw error;
  }
}

/** Whether `catch-up` and `listen` use this namespace. */
function isOwnName(namespace: string | undefined): boolean {
  return namespace?.endsWith(OWN) ?? false;
}

/**
 * The namespace to open in an SQLite file: the named one, or else the one that the file has, the app's first.
 *
 * @throws {CommandError} exit 2 when the file does not have it and must not be given it: a wrong path must not add tables to
 * the database of another program.
 */
function findNamespace(db: SqliteLike, { create, namespace, name }: OpenOptions): string {
  db.exec(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
  const rows = db.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all();
  const tables = (rows as readonly { readonly name: string }[]).map((table) => table.name);
  const found = [DEFAULT_NAMESPACE, DEFAULT_NAMESPACE + OWN].filter((each) =>
    tables.includes(`${each}_events`),
  );
  const [first] = found;
  const isKnown = namespace === undefined || found.includes(namespace);
  if (first !== undefined && (isKnown || create)) return namespace ?? first;
  if (tables.length === 0 && create) return namespace ?? DEFAULT_NAMESPACE;
  throw usageError(
    first === undefined
      ? `${name}: this SQLite file isn't an inbox. Check the path.`
      : `${name}: this SQLite file has no namespace ${namespace}. Leave --namespace out.`,
  );
}

/** The connection with the tables of this namespace in place of the app's. */
function withTables(db: SqliteLike, namespace: string): SqliteLike {
  const rename = (sql: string) => sql.replaceAll(`${DEFAULT_NAMESPACE}_`, `${namespace}_`);
  return { exec: (sql) => db.exec(rename(sql)), prepare: (sql) => db.prepare(rename(sql)) };
}

/**
 * In Redis, a wrong database number or prefix looks like an inbox without events.
 *
 * @throws {CommandError} exit 2 when there is neither an event nor a poll.
 */
async function assertIsUsed(
  inbox: Pick<OpenInbox, 'count' | 'readNote'>,
  { namespace, name }: OpenOptions,
): Promise<void> {
  const counts = await inbox.count();
  const note = await inbox.readNote(POLL_NOTE);
  if (note !== null || counts.some(({ count }) => count > 0)) return;
  const prefix = namespace ?? DEFAULT_NAMESPACE;
  throw usageError(
    `${namePlace(name)}: this Redis has no inbox with the prefix ${toPlain(prefix)}, or no event has come to it yet. Check the URL with the number of its database, and pass the \`prefix\` of the app's redisInbox as --namespace.`,
  );
}

/** @throws {CommandError} exit 2 when another release wrote the file, because opening it would migrate it. */
function assertIsOfThisRelease(
  db: SqliteLike,
  { Sqlite, name }: Pick<OpenOptions, 'name'> & { readonly Sqlite: SqliteDriver },
): void {
  const versionOf = (file: SqliteLike) =>
    JSON.stringify(file.prepare('SELECT version FROM stablehooks_schema').all());
  const fresh = new Sqlite(':memory:');
  try {
    sqliteInbox(fresh);
    if (versionOf(db) === versionOf(fresh)) return;
  } finally {
    fresh.close();
  }
  throw usageError(
    `${name}: another release of stablehooks wrote this file, and opening it with this release would migrate it, after which the other release cannot open it. Use the kit of the app's release, or start the app once with this one.`,
  );
}

/** How long to wait while another process writes, in ms. */
const BUSY_TIMEOUT_MS = 5_000;

type SqliteDriver = new (path: string) => SqliteLike & { close(): void };

async function findSqlite(): Promise<SqliteDriver> {
  const builtin = process.getBuiltinModule?.('node:sqlite') as
    | { readonly DatabaseSync: SqliteDriver }
    | undefined;
  if (builtin !== undefined) return builtin.DatabaseSync;
  const { driver } = await importFromProject<SqliteDriver>(
    ['libsql', 'better-sqlite3'],
    `Node ${process.versions.node} does not have node:sqlite (Node 22.13 and later do).`,
  );
  return driver;
}

/**
 * Opens an inbox by a URL that can contain a password.
 *
 * @throws {CommandError} exit 2, without any part of the URL, when the driver cannot parse it.
 */
async function openUrl(
  url: string,
  which: string,
  open: (url: string) => Promise<OpenInbox>,
): Promise<OpenInbox> {
  for (const part of confidentialParts(url)) keepConfidential(part);
  try {
    if (!isCutShort(url)) return await open(url);
  } catch (error) {
    if (!isUnreadableUrl(error)) throw error;
  }
  // No cause: Node's error for a wrong URL contains the URL.
  throw usageError(
    `${which} cannot be read. In its user and password, write characters such as / ? # @ and % as encodeURIComponent writes them.`,
  );
}

/** Whether a password ends the host, as `#` does. The rest of the URL then has the `@` that precedes the host. */
function isCutShort(url: string): boolean {
  if (!URL.canParse(url)) return false;
  const { username, password, pathname, hash } = new URL(url);
  return username + password === '' && `${pathname}${hash}`.includes('@');
}

function isUnreadableUrl(error: unknown): boolean {
  return error instanceof URIError || (error instanceof TypeError && error.message === 'Invalid URL');
}

/** How long to wait for a connection, in ms. */
const CONNECT_TIMEOUT_MS = 5_000;
/** How long to wait for an answer, in ms, because a connection can be lost silently. */
const ANSWER_TIMEOUT_MS = 60_000;

/** The used part of `pg`. */
interface Pg {
  readonly Pool: new (options: {
    readonly connectionString: string;
    readonly connectionTimeoutMillis: number;
    readonly query_timeout: number;
    readonly max: number;
  }) => PgLike & { end(): Promise<void>; on(event: 'error', listener: () => void): void };
  /** Parses the URL at once, whereas a pool does so only when it connects. */
  readonly Client: new (options: {
    readonly connectionString: string;
  }) => object;
}

async function openPostgres(
  connectionString: string,
  { create, namespace: schema }: OpenOptions,
): Promise<OpenInbox> {
  const { driver: pg } = await importFromProject<Pg>(['pg'], 'An inbox in Postgres needs its driver.');
  new pg.Client({ connectionString });
  const pool = new pg.Pool({
    connectionString,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    query_timeout: ANSWER_TIMEOUT_MS,
    max: 2,
  });
  // Without a listener, a connection that is cut while idle ends the process.
  pool.on('error', () => undefined);
  const inbox = postgresInbox(pool, { schema });
  if (create) await closeOnError(migratePostgres(pool, { schema }), () => pool.end());
  return { ...inbox, isOwn: isOwnName(schema), close: () => pool.end() };
}

/** Closes what was opened if the work fails. */
async function closeOnError(work: Promise<unknown>, close: () => unknown): Promise<void> {
  try {
    await work;
  } catch (error) {
    await close();
    throw error;
  }
}

/** The used part of mysql2. */
interface Mysql2 {
  createPool(options: {
    readonly uri: string;
    readonly connectTimeout: number;
    readonly connectionLimit: number;
  }): { promise(): MysqlPoolLike & { end(): Promise<void> } };
}

/** The pool with a time limit for each answer. */
function withTimeout(pool: MysqlPoolLike): MysqlPoolLike {
  return {
    async getConnection() {
      const connection = await pool.getConnection();
      const query: typeof connection.query = (options) =>
        connection.query(Object.assign(options, { timeout: ANSWER_TIMEOUT_MS }));
      return Object.create(connection, { query: { value: query } });
    },
  };
}

async function openMysql(url: string, { create, namespace: prefix }: OpenOptions): Promise<OpenInbox> {
  const { driver: mysql2 } = await importFromProject<Mysql2>(
    ['mysql2'],
    'An inbox in MySQL needs its driver.',
  );
  const { href } = new URL(url);
  const pool = mysql2
    .createPool({ uri: href, connectTimeout: CONNECT_TIMEOUT_MS, connectionLimit: 2 })
    .promise();
  const inbox = mysqlInbox(withTimeout(pool), { prefix });
  if (create) await closeOnError(migrateMysql(pool, { prefix }), () => pool.end());
  return { ...inbox, isOwn: isOwnName(prefix), close: () => pool.end() };
}

/** The used part of ioredis. */
type Ioredis = new (
  url: string,
  options: {
    readonly lazyConnect: true;
    readonly retryStrategy: () => null;
    readonly connectTimeout: number;
  },
) => IoredisLike & {
  connect(): Promise<void>;
  select(database: string): Promise<unknown>;
  disconnect(): void;
  on(event: 'error', listener: (error: Error) => void): void;
};

/** The used part of node-redis. */
interface NodeRedis {
  createClient(options: {
    readonly url: string;
    readonly socket: { readonly reconnectStrategy: false; readonly connectTimeout: number };
  }): NodeRedisLike & {
    connect(): Promise<unknown>;
    select(database: string): Promise<unknown>;
    destroy(): void;
    on(event: 'error', listener: () => void): void;
  };
}

/** A client of Redis, from either package. */
interface RedisClient {
  readonly redis: RedisLike;
  connect(): Promise<unknown>;
  select(database: string): Promise<unknown>;
  close(): void;
}

async function openRedis(url: string, options: OpenOptions, which: string): Promise<OpenInbox> {
  const { unused, namespace: prefix } = options;
  const server = new URL(url);
  const { pathname, searchParams } = server;
  const path = /^(?:\/(\d*))?$/.exec(pathname);
  if (path === null || searchParams.has('db')) {
    throw usageError(`${which}: write the database of Redis as a number after the host, such as /0.`);
  }
  const [, database = ''] = path;
  // The drivers differ for a missing database: ioredis continues with database 0.
  server.pathname = '';
  const { redis, connect, select, close } = await createRedisClient(server.href);
  // A wrong prefix is refused before a connection is open.
  const inbox = redisInbox(
    {
      eval: (...call) => inTime(redis.eval(...call), ANSWER_TIMEOUT_MS, noAnswer),
      evalsha: (...call) => inTime(redis.evalsha(...call), ANSWER_TIMEOUT_MS, noAnswer),
    },
    { prefix },
  );
  const enter = async () => {
    await connect();
    if (Number(database) === 0) return;
    await select(database).catch((error: unknown) => {
      if (!(error instanceof Error && error.message.startsWith('ERR '))) throw error;
      throw usageError(`${which}: this Redis has no database ${database}. Check the number after the host.`, {
        cause: error,
      });
    });
  };
  const check = async () => {
    await inTime(enter(), CONNECT_TIMEOUT_MS, noAnswer);
    if (!unused) await assertIsUsed(inbox, options);
  };
  await closeOnError(check(), close);
  return { ...inbox, isOwn: isOwnName(prefix), close };
}

const noAnswer = () => Object.assign(new Error('no answer'), { code: 'ETIMEDOUT' });

async function createRedisClient(url: string): Promise<RedisClient> {
  const { name, driver } = await importFromProject<Ioredis | NodeRedis>(
    ['ioredis', 'redis'],
    'An inbox in Redis needs its driver.',
  );
  if (name === 'ioredis') return byIoredis(driver as Ioredis, url);
  const client = (driver as NodeRedis).createClient({
    url,
    socket: { reconnectStrategy: false, connectTimeout: CONNECT_TIMEOUT_MS },
  });
  client.on('error', () => undefined);
  return {
    redis: fromNodeRedis(client),
    connect: () => client.connect(),
    select: (database) => client.select(database),
    close: () => client.destroy(),
  };
}

function byIoredis(Redis: Ioredis, url: string): RedisClient {
  const client = new Redis(url, {
    lazyConnect: true,
    retryStrategy: () => null,
    connectTimeout: CONNECT_TIMEOUT_MS,
  });
  let emitted: Error | undefined;
  client.on('error', (error) => {
    emitted = error;
  });
  return {
    redis: fromIoredis(client),
    // The promise rejects with "Connection is closed"; the event has the cause.
    connect: () =>
      client.connect().catch((error: unknown) => {
        throw emitted ?? error;
      }),
    select: (database) => client.select(database),
    close: () => client.disconnect(),
  };
}

/**
 * Imports the first of these packages that the project in the current folder has installed.
 *
 * @throws {CommandError} exit 2, with the package to install.
 */
async function importFromProject<Driver>(
  names: readonly string[],
  reason: string,
): Promise<{ readonly name: string; readonly driver: Driver }> {
  const project = createRequire(join(process.cwd(), 'package.json'));
  for (const name of names) {
    const file = resolvePackage(project, name);
    if (file !== undefined) return { name, driver: (await import(pathToFileURL(file).href)).default };
  }
  throw usageError(
    `${reason} Run \`npm install ${names[0]}\` here${names.length > 1 ? ` (or ${names.slice(1).join(', ')})` : ''}.`,
  );
}

function resolvePackage(project: NodeJS.Require, name: string): string | undefined {
  try {
    return project.resolve(name);
  } catch {
    return undefined;
  }
}
