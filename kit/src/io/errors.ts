import { CommanderError } from 'commander';
import { StablehooksError } from 'stablehooks';
import { connectionFailure } from '../explain/connection.js';
import { EXIT, type ExitCode, redact, toPlain } from './output.js';

/** An expected error. Its message is one line that includes the fix. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
  readonly exitCode: ExitCode;

  constructor(exitCode: ExitCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.exitCode = exitCode;
  }
}

/** Exit 2: the user must change a flag or a setting. */
export function usageError(message: string, options?: ErrorOptions): CommandError {
  return new CommandError(EXIT.usage, message, options);
}

/** Exit 3: something that the command needs does not respond. */
export function unreachableError(message: string, options?: ErrorOptions): CommandError {
  return new CommandError(EXIT.unreachable, message, options);
}

export interface Failure {
  readonly exitCode: ExitCode;
  readonly message: string;
}

export function toFailure(thrown: unknown): Failure {
  const { exitCode, message } = classify(thrown);
  return { exitCode, message: toPlain(message.replaceAll(/\s*[\r\n]+\s*/g, ' ').trim()) };
}

function classify(thrown: unknown): Failure {
  // The library wraps the errors of an inbox, so the expected error can be a cause.
  const expected = errorChain(thrown).find((error) => error instanceof CommandError);
  if (expected !== undefined) return expected;
  if (thrown instanceof CommanderError) return { exitCode: EXIT.usage, message: thrown.message };
  const system = errorChain(thrown).map(systemFailure).find(Boolean);
  // The service may have carried out the request, so the message must not advise a retry.
  const isUnclear =
    thrown instanceof StablehooksError && isChange(thrown) && !('unsent' in thrown && thrown.unsent);
  if (system && !isUnclear) return system;
  if (thrown instanceof StablehooksError) return { exitCode: exitCodeOf(thrown), message: messageOf(thrown) };
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return {
    exitCode: EXIT.failed,
    message: `${message} (Unexpected error: run the command again with --debug and report it.)`,
  };
}

/** Uses exit code 2 if the user can fix the problem by changing the command, and otherwise exit code 3. */
export function toInboxError(thrown: unknown): unknown {
  const chain = errorChain(thrown);
  const driver =
    thrown instanceof Error ? chain.findLast((error) => !(error instanceof StablehooksError)) : thrown;
  if (thrown instanceof CommandError || driver === undefined) return thrown;
  const system = chain.map(systemFailure).find(Boolean);
  if (system) return new CommandError(system.exitCode, system.message, { cause: thrown });
  const { message, code } = Object(driver) as { readonly message?: unknown; readonly code?: unknown };
  const what = redact(`${message ?? driver}${typeof code === 'string' ? ` (${code})` : ''}`);
  return REFUSED_USER.test(`${code} `) || REFUSED_USER.test(`${message} `)
    ? usageError(`The inbox rejected the user name or password: ${what}`, { cause: thrown })
    : unreachableError(`The inbox failed: ${what}. Check the inbox, then try again.`, { cause: thrown });
}

/** Error codes of Postgres (class 28) and MySQL, and the start of a Redis reply or a `pg` message. */
const REFUSED_USER = /^(?:28\w{3}|ER_\w*ACCESS_DENIED\w*|WRONGPASS|NOAUTH|SASL:) /;

export function withErrors<Target extends object>(
  target: Target,
  toError: (thrown: unknown) => unknown,
): Target {
  const rethrow = (thrown: unknown) => {
    throw toError(thrown);
  };
  return new Proxy(target, {
    get(from, name) {
      const member: unknown = Reflect.get(from, name);
      if (typeof member !== 'function') return member;
      return (...values: readonly unknown[]) => {
        try {
          const result: unknown = Reflect.apply(member, from, values);
          return result instanceof Promise ? result.catch(rethrow) : result;
        } catch (thrown) {
          return rethrow(thrown);
        }
      };
    },
  });
}

/** Innermost first, because the innermost error has the system's code. */
function errorChain(thrown: unknown): readonly Error[] {
  const chain: Error[] = [];
  for (let error = thrown; error instanceof Error && chain.length < 8; error = error.cause)
    chain.unshift(error);
  return chain;
}

function exitCodeOf(error: StablehooksError): ExitCode {
  // The sandbox runs in this process, so if it rejects something, a flag is wrong.
  if (error.code === 'ERR_CONFIG_INVALID' || error.code.startsWith('ERR_SANDBOX_')) return EXIT.usage;
  if (error.code === 'ERR_API_STATUS') {
    const status = statusOf(error);
    return status >= 500 || status === 408 || status === 429 ? EXIT.unreachable : EXIT.usage;
  }
  return error.code.startsWith('ERR_API_') || error.code.endsWith('_FAILED') ? EXIT.unreachable : EXIT.failed;
}

function statusOf(error: StablehooksError): number {
  return 'status' in error && typeof error.status === 'number' ? error.status : 500;
}

function isChange(error: StablehooksError): boolean {
  return 'method' in error && (error.method === 'POST' || error.method === 'PATCH');
}

function messageOf(error: StablehooksError): string {
  const { message } = error;
  if (error.code === 'ERR_CONFIG_INVALID') return message;
  if (error.code === 'ERR_API_CONNECTION') return `${message} (${errorChain(error)[0]?.message})`;
  const answer = 'answer' in error ? error.answer : undefined;
  if (typeof answer === 'string' && isHtml(answer))
    return `The service responded with an HTML page. ${CHECK_BASE_URL}`;
  // Otherwise, the id of a created wallet would be lost.
  if (answer !== undefined) return `${message} (${error.code}) response: ${shorten(JSON.stringify(answer))}`;
  const status = statusOf(error);
  // Only the message of a redirect contains the fix.
  if (error.code !== 'ERR_API_STATUS' || status < 400) return `${message} (${error.code})`;
  const body = 'body' in error && typeof error.body === 'string' ? error.body : '';
  if (isHtml(body)) {
    const unclear =
      isChange(error) && status >= 500
        ? ' The service may have carried out the request, so check before you try again.'
        : '';
    return `The service responded with ${status} and an HTML page, which usually means that another server or a proxy responded.${unclear} ${CHECK_BASE_URL}`;
  }
  // A sandbox also responds with 403 to an unknown host name, but that response already contains the fix.
  if ((status === 401 || status === 403) && !body.includes('"ERR_SANDBOX_HOST"')) {
    return `The service rejected the token (${status}). Set STABLEHOOKS_TOKEN, or pass --token-file, with a token that is valid for this base URL.`;
  }
  return `The service responded with ${status}: ${describeBody(body) || 'no body'} (${error.code})`;
}

const CHECK_BASE_URL = 'Check --base-url (STABLEHOOKS_BASE_URL).';

/** Returns the `detail` of an `application/problem+json` body, or the start of any other body. */
export function describeBody(body: string): string {
  try {
    const { detail, errors } = JSON.parse(body) ?? {};
    if (typeof detail === 'string') return shorten([detail, ...fieldErrors(errors, detail)].join(' '));
  } catch {
    // The body is not JSON, so its start is shown.
  }
  return shorten(body);
}

function fieldErrors(errors: unknown, detail: string): readonly string[] {
  if (!Array.isArray(errors)) return [];
  return errors.flatMap((error: unknown) => {
    const { field, detail: what } = Object(error) as Readonly<Record<string, unknown>>;
    if (typeof field !== 'string' || typeof what !== 'string' || detail.includes(field)) return [];
    return [`${field} ${what}.`];
  });
}

function isHtml(body: string): boolean {
  return /^\s*(?:<!doctype html|<html|<head|<body)/i.test(body);
}

function shorten(body: string): string {
  return toPlain(body.trim()).slice(0, MAX_BODY_SHOWN);
}

/** The maximum number of characters to show, because the body can be an HTML page. */
const MAX_BODY_SHOWN = 400;

const DISK = 'Free up space or choose another location. Data that is already written is kept.';

/** Error codes after which the same command can succeed later (exit 3). */
const UNREACHABLE: Readonly<Record<string, string>> = {
  ENOSPC: `The disk is full. ${DISK}`,
  EDQUOT: `The disk quota is used up. ${DISK}`,
  EFBIG: `The file cannot grow any further. ${DISK}`,
  SQLITE_FULL: `The disk is full. ${DISK}`,
  EIO: 'The disk reported an I/O error. Check the disk.',
  SQLITE_IOERR: `SQLite cannot write: the disk may be full. ${DISK}`,
  SQLITE_BUSY: 'Another process has locked the inbox file. Try again.',
};

/** Error codes for problems that the user can fix only by changing the command (exit 2). */
const USAGE: Readonly<Record<string, string>> = {
  EROFS: 'The file system is read-only. Choose another location.',
  ENOENT: 'The file or folder does not exist. Check the path.',
  EISDIR: 'This is a folder, not a file. Check the path.',
  ENOTDIR: 'Part of the path is not a folder. Check the path.',
  EACCES: 'Permission denied. Check the permissions; ports below 1024 need extra privileges.',
  EPERM: 'Permission denied. Check the permissions.',
  EADDRINUSE: 'The port is in use. Choose another one with --port, or pass 0 to use any free port.',
  EADDRNOTAVAIL: 'This machine does not have that address.',
  SQLITE_NOTADB: 'The file is not an SQLite database. Check the path.',
  SQLITE_CANTOPEN: 'The inbox file cannot be opened. Check its folder and permissions.',
  SQLITE_READONLY: 'The inbox file is read-only. Check its permissions.',
  '28P01': 'Postgres rejected the user name or password.',
  '3D000': 'Postgres has no database with that name.',
  '42P01': 'This database has no inbox in this schema. Check the URL and --namespace, or run the migrations.',
  ER_BAD_DB_ERROR: 'MySQL has no database with that name.',
  ER_NO_SUCH_TABLE:
    'This database has no inbox with this prefix. Check the URL and --namespace, or run the migrations.',
  ER_SP_DOES_NOT_EXIST:
    'This database has no inbox with this prefix. Check the URL and --namespace, or run the migrations.',
};

/** node:sqlite reports SQLite's primary result code as a number. */
const SQLITE_CODES: Readonly<Record<number, string>> = {
  5: 'SQLITE_BUSY',
  8: 'SQLITE_READONLY',
  13: 'SQLITE_FULL',
  14: 'SQLITE_CANTOPEN',
  26: 'SQLITE_NOTADB',
};

function systemFailure(error: Error): Failure | undefined {
  const { code, errcode, path, address, port, hostname } = error as Error & Readonly<Record<string, unknown>>;
  const name = typeof errcode === 'number' ? SQLITE_CODES[errcode & 0xff] : code;
  if (typeof name !== 'string') return undefined;
  const place = [path, hostname, address && port ? `${address}:${port}` : address].find(Boolean);
  const toMessage = (advice: string) => `${place ? `${place}: ` : ''}${advice} (${name})`;
  // The first two words of an extended SQLite code, such as SQLITE_IOERR_WRITE, are the primary code.
  for (const key of [name, name.split('_', 2).join('_')]) {
    const failure = connectionFailure(key);
    const connection =
      failure && `${failure.what.charAt(0).toUpperCase()}${failure.what.slice(1)}. ${failure.fix}`;
    const [later, now] = [UNREACHABLE[key] ?? connection, USAGE[key]];
    if (later !== undefined) return { exitCode: EXIT.unreachable, message: toMessage(later) };
    if (now !== undefined) return { exitCode: EXIT.usage, message: toMessage(now) };
  }
  return undefined;
}
