/** A real MariaDB on a free loopback port, with its data in a new directory. */
import { mkdir, mkdtemp } from 'node:fs/promises';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { run } from '../child.js';
import { freePort } from './free-port.js';
import { type Service, startProgram } from './service.js';

export const INSTALL_MARIADB = 'Install it with `apt-get install mariadb-server` or `brew install mariadb`.';

/** @param settings - further settings of mariadbd, such as `--innodb-lock-wait-timeout=1`. */
export async function startMariadb(settings: readonly string[] = []): Promise<Service> {
  const directory = await mkdtemp(join(tmpdir(), 'stablehooks-mariadb-'));
  const data = join(directory, 'data');
  // MariaDB runs as root only if it is told to.
  // A server removes the temporary files of others at its start, so each has a folder of its own.
  const temporary = join(directory, 'tmp');
  await mkdir(temporary);
  const shared = [
    '--no-defaults',
    `--datadir=${data}`,
    `--tmpdir=${temporary}`,
    `--user=${userInfo().username}`,
  ];
  await run({
    program: 'mariadb-install-db',
    args: [...shared, '--auth-root-authentication-method=normal', '--skip-test-db', '--skip-name-resolve'],
    cwd: directory,
  });

  const port = await freePort();
  const listen = ['--bind-address=127.0.0.1', `--port=${port}`, `--socket=${join(directory, 'socket')}`];
  const small = ['--innodb-buffer-pool-size=32M', '--innodb-flush-log-at-trx-commit=0', '--sync-binlog=0'];
  const more = ['--skip-name-resolve', '--max-connections=300', ...settings];
  return startProgram({
    ...{ folder: directory, port, url: `mysql://root@127.0.0.1:${port}/mysql`, install: INSTALL_MARIADB },
    command: ['mariadbd', ...shared, ...listen, ...small, ...more],
    options: { cwd: directory },
    ready: 'ready for connections',
    halt: 'SIGTERM',
    stop: 'SIGKILL',
  });
}
