/** What the codes of the system, of SQLite and of Postgres mean to the person at the keyboard. */
import { EXIT, type ExitCode } from './exit.js';

/** What to do about a failure, and how the command ends. */
export interface Advice {
  readonly exitCode: ExitCode;
  readonly advice: string;
}

const DISK = 'Make room or choose another place; what was written before is kept.';

/** The surroundings failed: the same command may do well later. */
const UNREACHABLE: Readonly<Record<string, string>> = {
  ENOSPC: `The disk is full. ${DISK}`,
  EDQUOT: `The disk quota is used up. ${DISK}`,
  EFBIG: `The file may not grow any further. ${DISK}`,
  SQLITE_FULL: `The disk is full. ${DISK}`,
  EIO: 'The disk does not answer as it should. Check it.',
  ECONNREFUSED: 'Nothing listens there. Is it started, and the port right?',
  ECONNRESET: 'The connection was cut. Try again.',
  ENOTFOUND: 'There is no host of that name. Check the URL and the network.',
  EAI_AGAIN: 'Host names cannot be looked up. Check the network.',
  EHOSTUNREACH: 'The host cannot be reached. Check the network.',
  ENETUNREACH: 'The network cannot be reached. Check the connection.',
  ETIMEDOUT: 'The host did not answer in time. Check the network.',
  SQLITE_IOERR: `The disk does not take what SQLite writes: it may be full. ${DISK}`,
  SQLITE_BUSY: 'Another process holds the inbox file. Try again.',
};

/** The command itself has to change. */
const USAGE: Readonly<Record<string, string>> = {
  EROFS: 'The file system is read-only. Choose another place.',
  ENOENT: 'There is no such file or folder. Check the path.',
  EISDIR: 'A file is needed here, and this is a folder.',
  ENOTDIR: 'A part of the path is not a folder. Check the path.',
  EACCES: 'This user may not do that. Check the permissions, or a port below 1024.',
  EPERM: 'This user may not do that. Check the permissions.',
  EADDRINUSE: 'The port is taken. Choose another with --port, or 0 for any.',
  EADDRNOTAVAIL: 'This machine does not have that address.',
  SQLITE_NOTADB: 'The file is not an SQLite database. Check the path.',
  SQLITE_CANTOPEN: 'The inbox file cannot be opened. Check its folder and permissions.',
  SQLITE_READONLY: 'The inbox file is read-only. Check its permissions.',
  '28P01': 'Postgres refused the user or the password.',
  '3D000': 'Postgres has no database of that name.',
  '42P01': 'This database has no inbox: run the migrations, or check the URL.',
};

/** SQLite's primary result codes, for drivers that give the number (node:sqlite). */
const SQLITE_CODES: Readonly<Record<number, string>> = {
  5: 'SQLITE_BUSY',
  8: 'SQLITE_READONLY',
  13: 'SQLITE_FULL',
  14: 'SQLITE_CANTOPEN',
  26: 'SQLITE_NOTADB',
};

/** Advice on an error's `code`, or on the number that node:sqlite gives as `errcode`. */
export function adviseOn({
  code,
  errcode,
}: Readonly<Record<string, unknown>>): (Advice & { readonly name: string }) | undefined {
  const name = typeof errcode === 'number' ? SQLITE_CODES[errcode & 0xff] : code;
  if (typeof name !== 'string') return undefined;
  // Of SQLite's extended codes (SQLITE_IOERR_WRITE) the first two words are the primary one.
  for (const key of [name, name.split('_', 2).join('_')]) {
    const [later, change] = [UNREACHABLE[key], USAGE[key]];
    if (later !== undefined) return { name, exitCode: EXIT.unreachable, advice: later };
    if (change !== undefined) return { name, exitCode: EXIT.usage, advice: change };
  }
  return undefined;
}
