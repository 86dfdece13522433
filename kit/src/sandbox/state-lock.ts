import { closeSync, openSync, readFileSync, realpathSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { ConfigError } from 'stablehooks';

/** A state file that no other sandbox uses. */
export interface LockedStateFile {
  /** The path of the file, without symbolic links. */
  readonly path: string;
  release(): void;
}

/** The locks of this process, because a process of the same id in another container is another process. */
const held = new Set<string>();

/**
 * Checks that the state can be kept at this path, and locks it with the file `<path>.lock`. The lock of a process
 * that has ended is taken over.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID`, naming the path: no folder, not a file, no permission, a full disk, or
 *   in use.
 */
export function lockStateFile(given: string): LockedStateFile {
  const path = resolvePath(given);
  const lock = `${path}.lock`;
  while (!createLock(lock, given)) removeStale(lock, given);
  held.add(lock);
  return {
    path,
    release: () => {
      if (held.delete(lock)) rmSync(lock, { force: true });
    },
  };
}

/**
 * Returns `false` when the lock exists.
 *
 * @throws {ConfigError} when it cannot be written. No part of it is left behind.
 */
function createLock(lock: string, given: string): boolean {
  try {
    writeFileSync(lock, `${process.pid}\n`, { flag: 'wx', mode: 0o600 });
    return true;
  } catch (cause) {
    const code = codeOf(cause);
    if (code === 'EEXIST') return false;
    rmSync(lock, { force: true });
    const why = WRITE_FAILURES[code] ?? `its lock ${lock} could not be written (${code}). Check the disk`;
    throw new ConfigError(`The state file ${given} cannot be written: ${why}, or pass another path.`);
  }
}

/** Why a folder accepts no file, and the fix. */
const WRITE_FAILURES: Readonly<Record<string, string>> = {
  EACCES: 'this user cannot write to its folder. Check the permissions',
  EPERM: 'this user cannot write to its folder. Check the permissions',
  EROFS: 'its file system is read-only. Check how it is mounted',
  ENOSPC: 'the disk is full. Free some space',
  EDQUOT: 'the quota of this user is used up. Free some space',
};

/** @throws {ConfigError} when the path cannot be used for a state file. */
function resolvePath(given: string): string {
  const refuse = (what: string, fix: string) => new ConfigError(`The state file ${given} ${what}. ${fix}.`);
  const folder = dirname(given);
  if (!isFolder(folder)) {
    throw refuse(`needs the folder ${folder}, which does not exist`, 'Create it, or pass another path');
  }
  const stats = statSync(given, { throwIfNoEntry: false });
  if (stats === undefined) return join(realpathSync(folder), basename(given));
  if (stats.isDirectory())
    throw refuse('is a folder', `Pass a file in it, such as ${join(given, 'state.json')}`);
  if (!stats.isFile()) throw refuse('is not a regular file', 'Pass another path');
  try {
    closeSync(openSync(given, 'r+'));
  } catch {
    throw refuse('cannot be read and written by this user', 'Check its permissions, or pass another path');
  }
  return realpathSync(given);
}

function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}

/** @throws {ConfigError} when the process of the lock runs, or is unknown. */
function removeStale(lock: string, given: string): void {
  const owner = Number.parseInt(readFileSync(lock, 'utf8'), 10);
  if (!held.has(lock) && (owner === process.pid || !isRunning(owner))) {
    rmSync(lock, { force: true });
    return;
  }
  const [by, unless] =
    owner > 0
      ? [`another sandbox (process ${owner})`, `process ${owner} is not a sandbox`]
      : ['another sandbox', 'no sandbox uses it'];
  throw new ConfigError(
    `The state file ${given} is used by ${by}. Stop that one, or pass another path. If ${unless}, remove ${lock}.`,
  );
}

function isRunning(pid: number): boolean {
  // A lock that was just created, or cut off. Treated as in use, which is safe.
  if (!(pid > 0)) return true;
  try {
    return process.kill(pid, 0);
  } catch (cause) {
    return codeOf(cause) !== 'ESRCH';
  }
}

function codeOf(cause: unknown): string {
  return cause instanceof Error && 'code' in cause ? String(cause.code) : '';
}
