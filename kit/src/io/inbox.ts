import type { Command } from 'commander';
import { toShellWord } from '../shell-word.js';
import { toInboxError, usageError, withErrors } from './errors.js';
import { openMysql } from './inbox/mysql.js';
import type { Opened, OpenOptions } from './inbox/opening.js';
import { openPostgres } from './inbox/postgres.js';
import { openRedis } from './inbox/redis.js';
import { openSqlite } from './inbox/sqlite.js';
import { type ExitCode, keepConfidential } from './output.js';
import { confidentialParts, hasPassword } from './place.js';
import { addAction, type CommandContext } from './settings.js';

export interface OpenInbox extends Omit<Opened, 'namespace'> {
  /** Whether this is the namespace of `catch-up` and `listen`, in which no app runs events. */
  readonly isOwn: boolean;
}

export interface InboxFlags {
  /** An SQLite file, a `postgres:`, `mysql:` or `redis:` URL, or `env:NAME`. */
  readonly inbox: string;
  /** The schema in Postgres, or the prefix in any other database. */
  readonly namespace?: string;
  readonly envFile?: string;
}

export function hasInbox(flags: Partial<InboxFlags>): flags is InboxFlags {
  if (flags.inbox !== undefined) return true;
  if (flags.namespace === undefined) return false;
  throw usageError('--namespace has no effect without --inbox. Pass both.');
}

/** Omits `--inbox` if the environment provides the location. */
export function toInboxWords({ inbox, namespace, envFile }: InboxFlags): string {
  const words = [
    ...(inbox === placeFromEnvironment() ? [] : ['--inbox', inbox]),
    ...(namespace === undefined ? [] : ['--namespace', namespace]),
    ...(envFile === undefined ? [] : ['--env-file', envFile]),
  ];
  return words.map((word) => ` ${toShellWord(word)}`).join('');
}

/** `catch-up` and `listen` lease events and move the watermark, so they must not use the app's namespace. */
const OWN = '_catch_up';

const DEFAULT_NAMESPACE = 'stablehooks';

/** The environment variables that can provide the location, in order of precedence. */
const PLACES = ['STABLEHOOKS_INBOX', 'DATABASE_URL'] as const;

function placeFromEnvironment(): string | undefined {
  const name = PLACES.find((each) => process.env[each] !== undefined);
  return name && `env:${name}`;
}

function takePlaceFromEnvironment(command: Command): void {
  if (command.getOptionValue('inbox') !== undefined) return;
  const place = placeFromEnvironment();
  if (place === undefined)
    throw usageError(`No inbox is specified. Pass --inbox, or set ${PLACES.join(' or ')}.`);
  command.setOptionValueWithSource('inbox', place, 'env');
}

export const INBOX_PLACE =
  'SQLite file, database URL (postgres:, mysql: or redis:), or env:NAME to read either of them from an environment variable';

/** @param required - whether `--inbox` must be typed. By default, the environment can provide the location. */
export function addInboxFlags(
  command: Command,
  { about = INBOX_PLACE, required }: { readonly about?: string; readonly required?: boolean } = {},
): Command {
  const fromEnvironment = required === undefined;
  if (fromEnvironment) command.hook('preAction', takePlaceFromEnvironment);
  const words = fromEnvironment ? `${about} (environment: ${PLACES.join(', then ')})` : about;
  const flag = command.createOption('--inbox <location>', words).makeOptionMandatory(required === true);
  return command
    .addOption(flag)
    .option(
      '--namespace <name>',
      '`schema` that your app passes to postgresInbox, or `prefix` that your app passes to any other inbox (default: stablehooks)',
    );
}

/** If a file lacks the app's namespace, opens the namespace of `catch-up` and `listen`. `unused` accepts an empty Redis. */
export function openInbox(flags: InboxFlags, { unused = false } = {}): Promise<OpenInbox> {
  const { inbox, namespace } = flags;
  const namespaces = [namespace ?? DEFAULT_NAMESPACE, namespace ?? toOwnNamespace()] as const;
  return open(inbox, { create: false, unused, namespaces });
}

/** Creates or migrates the namespace of `catch-up` and `listen`. */
export function openOwnInbox({ inbox, namespace = DEFAULT_NAMESPACE }: InboxFlags): Promise<OpenInbox> {
  return open(inbox, { create: true, unused: true, namespaces: [toOwnNamespace(namespace), namespace] });
}

export function toOwnNamespace(namespace = DEFAULT_NAMESPACE): string {
  return namespace + OWN;
}

async function open(place: string, options: Omit<OpenOptions, 'name'>): Promise<OpenInbox> {
  const value = readPlace(place);
  try {
    const { namespace, ...opened } = await openPlace(value, { ...options, name: place });
    return withErrors({ ...opened, isOwn: namespace.endsWith(OWN) }, toInboxError);
  } catch (error) {
    throw toInboxError(error);
  }
}

/** Rejects a URL that contains a password, because the process list shows flags. */
export function readPlace(place: string, flag = '--inbox'): string {
  const value = resolvePlace(place, flag);
  if (value !== place || !hasPassword(place)) return value;
  throw usageError(
    'A password in the URL would be visible in the process list. Put the URL in an environment variable and pass env:NAME. A URL that cannot be parsed is treated as if it had a password.',
  );
}

function resolvePlace(place: string, flag: string): string {
  if (place === '') throw usageError(`${flag} is empty. If it comes from a variable, check its value.`);
  const [, variable] = /^env:(\w+)$/.exec(place) ?? [];
  const value = variable === undefined ? place : process.env[variable];
  if (value) return value;
  throw usageError(`${place}: this environment variable is ${value === '' ? 'empty' : 'not set'}.`);
}

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

/** The inbox is open while `run` runs. */
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

const OPENERS: readonly (readonly [
  scheme: RegExp,
  open: (url: string, options: OpenOptions, which: string) => Promise<Opened>,
])[] = [
  [/^postgres(ql)?:/, openPostgres],
  [/^(?:mysql|mariadb):/, openMysql],
  [/^rediss?:/, openRedis],
];

async function openPlace(place: string, options: OpenOptions): Promise<Opened> {
  const which = options.name === place ? 'This URL' : options.name;
  for (const [scheme, openWith] of OPENERS) {
    if (scheme.test(place)) return openUrl(place, which, (url) => openWith(url, options, which));
  }
  if (/^[a-z][\w+.-]*:\/\//i.test(place)) {
    throw usageError(`${which}: an inbox must be an SQLite file or a postgres:, mysql: or redis: URL.`);
  }
  return openSqlite(place, options);
}

/** The URL can contain a password, so no error quotes any part of it. */
async function openUrl(url: string, which: string, open: (url: string) => Promise<Opened>): Promise<Opened> {
  for (const part of confidentialParts(url)) keepConfidential(part);
  try {
    if (!isCutShort(url)) return await open(url);
  } catch (error) {
    if (!isUnreadableUrl(error)) throw error;
  }
  // The error has no cause, because Node's error for an invalid URL contains the URL.
  throw usageError(
    `${which} cannot be parsed. In the user name and password, encode characters such as / ? # @ and % with encodeURIComponent.`,
  );
}

/** An unencoded character such as `#` in the password ends the host too early, before the `@`. */
function isCutShort(url: string): boolean {
  if (!URL.canParse(url)) return false;
  const { username, password, pathname, hash } = new URL(url);
  return username + password === '' && `${pathname}${hash}`.includes('@');
}

function isUnreadableUrl(error: unknown): boolean {
  return error instanceof URIError || (error instanceof TypeError && error.message === 'Invalid URL');
}
