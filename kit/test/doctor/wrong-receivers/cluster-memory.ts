import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { RunningServer } from '../../http-server.js';

const PROGRAM = fileURLToPath(new URL('./cluster-process.ts', import.meta.url));

/** Several processes behind one port, each with a memory inbox. */
export async function startClusterWithMemory(secret: string): Promise<RunningServer> {
  const primary = fork(PROGRAM, { execArgv: ['--import', 'tsx'], env: { ...process.env, SECRET: secret } });
  const [port] = await once(primary, 'message');
  return {
    url: `http://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      const exit = once(primary, 'exit');
      primary.disconnect();
      await exit;
    },
  };
}
