/** A real Redis on a free loopback port, its data in a directory of its own. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from './free-port.js';
import type { Service } from './service.js';

/** @param settings - more of the server's own settings, such as `--cluster-enabled`. */
export async function startRedis(settings: readonly string[] = []): Promise<Service> {
  const dir = await mkdtemp(join(tmpdir(), 'stablehooks-redis-'));
  const port = await freePort();
  let server: ChildProcess | undefined;

  async function start() {
    const listen = ['--bind', '127.0.0.1', '--port', String(port), '--dir', dir];
    const keep = ['--save', '', '--appendonly', 'yes', '--maxmemory-policy', 'noeviction'];
    server = spawn('redis-server', [...listen, ...keep, ...settings], { stdio: 'ignore' });
    while (!(await pong(port))) if (server.exitCode !== null) throw new Error('redis-server did not start');
  }
  async function halt() {
    const exit = server && once(server, 'exit');
    server?.kill('SIGTERM');
    await exit;
  }
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
      await halt();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/** Whether it answers; while it loads its data it says LOADING instead. */
async function pong(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    socket.write('PING\r\n');
    const [answer] = await once(socket, 'data');
    return String(answer).startsWith('+PONG');
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
