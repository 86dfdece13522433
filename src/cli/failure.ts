/** What ends a command early: the exit code that it means, and the one line that says what to do. */
import { CommanderError } from 'commander';
import { StablehooksError } from '../core/errors.js';
import { toPlain } from './table.js';

/** The exit codes, as `--help` and the README document them. */
export const EXIT = {
  /** Done, or the check passed. */
  good: 0,
  /** The check failed: a signature, an endpoint, a delivery, an unproven poll. */
  failed: 1,
  /** Wrong use: a flag, a setting, a file, a refused token. */
  usage: 2,
  /** Could not reach: the network, the service, the disk. */
  unreachable: 3,
  /** Ctrl-C, as shells count it. */
  interrupted: 130,
} as const;

/** One of {@link EXIT}. */
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** A failure that a command foresaw; its message is one line that says what to do. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
  readonly exitCode: ExitCode;

  constructor(exitCode: ExitCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.exitCode = exitCode;
  }
}

/** The caller has to type or set something else. */
export function usageError(message: string, options?: ErrorOptions): CommandError {
  return new CommandError(EXIT.usage, message, options);
}

/** Something that the command needs did not answer. */
export function unreachableError(message: string, options?: ErrorOptions): CommandError {
  return new CommandError(EXIT.unreachable, message, options);
}

/** How a command ended early. */
export interface Failure {
  readonly exitCode: ExitCode;
  readonly message: string;
}

/** Finds the exit code and the one line for whatever was thrown. */
export function toFailure(thrown: unknown): Failure {
  const { exitCode, message } = judge(thrown);
  return { exitCode, message: message.replaceAll(/\s*[\r\n]+\s*/g, ' ').trim() };
}

function judge(thrown: unknown): Failure {
  if (thrown instanceof CommandError) return thrown;
  if (thrown instanceof CommanderError) return { exitCode: EXIT.usage, message: thrown.message };
  const system = errorChain(thrown).map(systemFailure).find(Boolean);
  if (system) return system;
  if (thrown instanceof StablehooksError)
    return { exitCode: codeFailure(thrown), message: apiMessage(thrown) };
  const words = thrown instanceof Error ? thrown.message : String(thrown);
  return { exitCode: EXIT.failed, message: `${words} (Not foreseen: run again with --debug and report it.)` };
}

/** The error and its causes, innermost first: the innermost knows what really happened. */
function errorChain(thrown: unknown): readonly Error[] {
  const chain: Error[] = [];
  for (let error = thrown; error instanceof Error && chain.length < 8; error = error.cause)
    chain.unshift(error);
  return chain;
}

const DISK = 'Make room or choose another place; what was written before is kept.';

/** What the codes of the system and of SQLite mean to the person at the keyboard. */
const SYSTEM: Readonly<Record<string, { readonly exitCode: ExitCode; readonly advice: string }>> = {
  ENOSPC: { exitCode: EXIT.unreachable, advice: `The disk is full. ${DISK}` },
  EDQUOT: { exitCode: EXIT.unreachable, advice: `The disk quota is used up. ${DISK}` },
  EFBIG: { exitCode: EXIT.unreachable, advice: `The file may not grow any further. ${DISK}` },
  SQLITE_FULL: { exitCode: EXIT.unreachable, advice: `The disk is full. ${DISK}` },
  EIO: { exitCode: EXIT.unreachable, advice: 'The disk does not answer as it should. Check it.' },
  EROFS: { exitCode: EXIT.usage, advice: 'The file system is read-only. Choose another place.' },
  ENOENT: { exitCode: EXIT.usage, advice: 'There is no such file or folder. Check the path.' },
  EISDIR: { exitCode: EXIT.usage, advice: 'A file is needed here, and this is a folder.' },
  ENOTDIR: { exitCode: EXIT.usage, advice: 'A part of the path is not a folder. Check the path.' },
  EACCES: {
    exitCode: EXIT.usage,
    advice: 'This user may not do that. Check the permissions, or a port below 1024.',
  },
  EPERM: { exitCode: EXIT.usage, advice: 'This user may not do that. Check the permissions.' },
  EADDRINUSE: {
    exitCode: EXIT.usage,
    advice: 'The port is taken. Choose another with --port, or 0 for any.',
  },
  EADDRNOTAVAIL: { exitCode: EXIT.usage, advice: 'This machine does not have that address.' },
  ECONNREFUSED: {
    exitCode: EXIT.unreachable,
    advice: 'Nothing listens there. Is it started, and the port right?',
  },
  ECONNRESET: { exitCode: EXIT.unreachable, advice: 'The connection was cut. Try again.' },
  ENOTFOUND: {
    exitCode: EXIT.unreachable,
    advice: 'There is no host of that name. Check the URL and the network.',
  },
  EAI_AGAIN: { exitCode: EXIT.unreachable, advice: 'Host names cannot be looked up. Check the network.' },
  EHOSTUNREACH: { exitCode: EXIT.unreachable, advice: 'The host cannot be reached. Check the network.' },
  ENETUNREACH: { exitCode: EXIT.unreachable, advice: 'The network cannot be reached. Check the connection.' },
  ETIMEDOUT: { exitCode: EXIT.unreachable, advice: 'The host did not answer in time. Check the network.' },
  SQLITE_IOERR: {
    exitCode: EXIT.unreachable,
    advice: `The disk does not take what SQLite writes: it may be full. ${DISK}`,
  },
  SQLITE_NOTADB: { exitCode: EXIT.usage, advice: 'The file is not an SQLite database. Check the path.' },
  SQLITE_CANTOPEN: {
    exitCode: EXIT.usage,
    advice: 'The inbox file cannot be opened. Check its folder and permissions.',
  },
  SQLITE_READONLY: { exitCode: EXIT.usage, advice: 'The inbox file is read-only. Check its permissions.' },
  '28P01': { exitCode: EXIT.usage, advice: 'Postgres refused the user or the password.' },
  '3D000': { exitCode: EXIT.usage, advice: 'Postgres has no database of that name.' },
  '42P01': {
    exitCode: EXIT.usage,
    advice: 'This database has no inbox: run the migrations, or check the URL.',
  },
  SQLITE_BUSY: { exitCode: EXIT.unreachable, advice: 'Another process holds the inbox file. Try again.' },
};

/** SQLite's primary result codes, for drivers that give the number (node:sqlite). */
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
  // Of SQLite's extended codes (SQLITE_IOERR_WRITE) the first two words are the primary one.
  const known = typeof name === 'string' ? (SYSTEM[name] ?? SYSTEM[name.split('_', 2).join('_')]) : undefined;
  if (known === undefined) return undefined;
  const place = [path, hostname, address && port ? `${address}:${port}` : address].find(Boolean);
  return { exitCode: known.exitCode, message: `${place ? `${place}: ` : ''}${known.advice} (${name})` };
}

function codeFailure(error: StablehooksError): ExitCode {
  if (error.code === 'ERR_CONFIG_INVALID') return EXIT.usage;
  if (error.code === 'ERR_API_STATUS')
    return apiStatus(error) < 500 && apiStatus(error) !== 429 ? EXIT.usage : EXIT.unreachable;
  return error.code.startsWith('ERR_API_') || error.code.endsWith('_FAILED') ? EXIT.unreachable : EXIT.failed;
}

function apiStatus(error: StablehooksError): number {
  return 'status' in error && typeof error.status === 'number' ? error.status : 500;
}

function apiMessage(error: StablehooksError): string {
  if (error.code === 'ERR_API_CONNECTION') return `${error.message} (${errorChain(error)[0]?.message})`;
  if (error.code !== 'ERR_API_STATUS') return `${error.message} (${error.code})`;
  const status = apiStatus(error);
  if (status === 401 || status === 403) {
    return `The service refused the token (${status}). Set STABLEHOOKS_TOKEN or --token-file to one that is in force at this base URL.`;
  }
  const body = 'body' in error && typeof error.body === 'string' ? error.body : '';
  return `The service answered ${status}: ${toPlain(body.trim()).slice(0, SHOWN_LENGTH) || 'nothing more'} (${error.code})`;
}

/** How much of an answer is shown: service.md does not specify errors, and a page of HTML helps nobody. */
const SHOWN_LENGTH = 400;
