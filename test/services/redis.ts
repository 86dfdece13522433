/** A real Redis on a free loopback port, with its data in a new directory. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from './free-port.js';
import type { Service } from './service.js';

export const INSTALL_REDIS = 'Install it with `apt-get install redis-server` or `brew install redis`.';

/** @param settings - further settings of redis-server, such as `--cluster-enabled`. */
export async function startRedis(settings: readonly string[] = []): Promise<Service> {
  const dir = await mkdtemp(join(tmpdir(), 'stablehooks-redis-'));
  const port = await freePort();
  let server: ChildProcess | undefined;

  async function start() {
    const listen = ['--bind', '127.0.0.1', '--port', String(port), '--dir', dir];
    const keep = ['--save', '', '--appendonly', 'yes', '--maxmemory-policy', 'noeviction'];
    const child = spawn('redis-server', [...listen, ...keep, ...settings], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    server = child;
    await new Promise<void>((resolve, reject) => {
      let printed = '';
      const read = (chunk: Buffer) => {
        printed += chunk;
        // Redis prints this when it has loaded its data.
        if (!printed.includes('Ready to accept connections')) return;
        child.stdout.off('data', read).resume();
        resolve();
      };
      child.stdout.on('data', read);
      child.once('error', (error) =>
        reject(new Error(`redis-server cannot be started. ${INSTALL_REDIS}`, { cause: error })),
      );
      child.once('close', () => reject(new Error(`redis-server ended before it was ready:\n${printed}`)));
    });
  }
  async function end(signal: 'SIGTERM' | 'SIGKILL') {
    if (server === undefined || server.exitCode !== null || server.signalCode !== null) return;
    const exit = once(server, 'exit');
    server.kill(signal);
    await exit;
  }
  const halt = () => end('SIGTERM');
  await start();
  return {
    port,
    url: `redis://127.0.0.1:${port}`,
    async restart() {
      await halt();
      await start();
    },
    halt,
    start,
    async stop() {
      // Redis does not react to SIGTERM while it runs a script.
      await end('SIGKILL');
      await rm(dir, { recursive: true, force: true });
    },
  };
}
