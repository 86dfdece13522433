/** A real Redis on a free loopback port, with its data in a new directory. */
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from './free-port.js';
import { type Service, startProgram } from './service.js';

export const INSTALL_REDIS = 'Install it with `apt-get install redis-server` or `brew install redis`.';

/** @param settings - further settings of redis-server. */
export async function startRedis(settings: readonly string[] = []): Promise<Service> {
  const folder = await mkdtemp(join(tmpdir(), 'stablehooks-redis-'));
  const port = await freePort();
  const listen = ['--bind', '127.0.0.1', '--port', String(port), '--dir', folder];
  const keep = ['--save', '', '--appendonly', 'yes', '--maxmemory-policy', 'noeviction'];
  return startProgram({
    ...{ folder, port, url: `redis://127.0.0.1:${port}`, install: INSTALL_REDIS },
    command: ['redis-server', ...listen, ...keep, ...settings],
    // Printed when it has loaded its data.
    ready: 'Ready to accept connections',
    halt: 'SIGTERM',
    // Redis does not react to SIGTERM while it runs a script.
    stop: 'SIGKILL',
  });
}

/** A node of a cluster. The port of its bus would be 10,000 above the other one, where systems give ports to connections. */
export async function startRedisNode() {
  const bus = await freePort();
  const settings = ['--cluster-enabled', 'yes', '--cluster-announce-ip', '127.0.0.1', '--cluster-port'];
  return { ...(await startRedis([...settings, String(bus)])), bus };
}
