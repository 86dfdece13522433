import { randomUUID } from 'node:crypto';
import {
  closeSync,
  linkSync,
  openSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { ConfigError } from 'stablehooks';

/** A state file that no other sandbox uses. */
export interface LockedStateFile {
  /** Where the file is or will be, without symbolic links. */
  readonly path: string;
  release(): void;
}

/** The locks of this process: another process of the same id, in another container, is not this one. */
const held = new Set<string>();

/**
 * Checks that the state can be kept at this path, and locks it with the file `<path>.lock`. The lock of a process
 * that has ended is taken over.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID`, naming the path: no folder, not a file, no permission, or in use.
 */
export function lockStateFile(given: string): LockedStateFile {
  const path = resolvePath(given);
  const lock = `${path}.lock`;
  for (;;) {
    try {
      writeFileSync(lock, `${process.pid}\n`, { flag: 'wx', mode: 0o600 });
      break;
    } catch (cause) {
      if (codeOf(cause) !== 'EEXIST') {
        throw new ConfigError(
          `The state file ${given} cannot be written: this user cannot write to its folder. Check the permissions, or give another path.`,
        );
      }
    }
    takeOver(lock, given);
  }
  held.add(lock);
  return {
    path,
    release: () => {
      if (held.delete(lock)) rmSync(lock, { force: true });
    },
  };
}

/** @throws {ConfigError} when the path cannot be that of a state file. */
function resolvePath(given: string): string {
  const refuse = (what: string, fix: string) => new ConfigError(`The state file ${given} ${what}. ${fix}.`);
  const folder = dirname(given);
  if (!isFolder(folder)) {
    throw refuse(`needs the folder ${folder}, which does not exist`, 'Create it, or give another path');
  }
  const stats = statSync(given, { throwIfNoEntry: false });
  if (stats === undefined) return join(realpathSync(folder), basename(given));
  if (stats.isDirectory())
    throw refuse('is a folder', `Give a file in it, such as ${join(given, 'state.json')}`);
  if (!stats.isFile()) throw refuse('is not a regular file', 'Give another path');
  try {
    closeSync(openSync(given, 'r+'));
  } catch {
    throw refuse('cannot be read and written by this user', 'Check its permissions, or give another path');
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

/**
 * Removes a lock whose process has ended.
 *
 * @throws {ConfigError} when the process still runs.
 */
function takeOver(lock: string, given: string): void {
  const owner = readOwner(lock);
  // It was released meanwhile.
  if (owner === undefined) return;
  if (held.has(lock) || (owner !== process.pid && isRunning(owner))) {
    throw new ConfigError(
      `The state file ${given} is used by another sandbox (process ${owner}). Stop that one, or give another path. If process ${owner} is not a sandbox, remove ${lock}.`,
    );
  }
  // Not removed at once: another process may have replaced it since it was read, and gets it back.
  const aside = `${lock}.${randomUUID()}`;
  try {
    renameSync(lock, aside);
    if (readOwner(aside) !== owner) linkSync(aside, lock);
  } catch (cause) {
    if (!['ENOENT', 'EEXIST'].includes(codeOf(cause))) throw cause;
  } finally {
    rmSync(aside, { force: true });
  }
}

/** `undefined` when there is no lock. */
function readOwner(lock: string): number | undefined {
  try {
    return Number.parseInt(readFileSync(lock, 'utf8'), 10);
  } catch (cause) {
    if (codeOf(cause) === 'ENOENT') return undefined;
    throw cause;
  }
}

function isRunning(pid: number): boolean {
  // A lock that was just created, or one that was cut off: treated as in use, because that is safe.
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
