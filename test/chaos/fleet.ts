import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { bundle } from '../bundle.js';
import type { ProcessSettings } from './process.js';

const ROLES = ['receiver', 'worker', 'receiver', 'worker', 'receiver'] as const;

/** Three receivers and two workers. A process that ends is started again. */
export async function startFleet(settings: Omit<ProcessSettings, 'role'>) {
  const program = await bundle(new URL('./process.ts', import.meta.url));
  const members: (ChildProcess | undefined)[] = [];
  const ports = new Map<number, number>();
  let kills = 0;
  let stopping = false;

  function start(index: number) {
    const role = ROLES[index];
    if (stopping || role === undefined) return;
    const child = fork(program.file, [JSON.stringify({ role, ...settings })], {
      execArgv: [],
      stdio: ['ignore', 'ignore', process.env['CHAOS_STDERR'] ? 'inherit' : 'ignore', 'ipc'],
    });
    members[index] = child;
    child.on('message', ({ port }: AddressInfo) => ports.set(index, port));
    child.on('exit', () => {
      ports.delete(index);
      start(index);
    });
  }
  for (const index of ROLES.keys()) start(index);

  return {
    ports: () => [...ports.values()],
    kill() {
      members[kills % ROLES.length]?.kill('SIGKILL');
      kills += 1;
    },
    get kills() {
      return kills;
    },
    async stop() {
      stopping = true;
      const running = members.filter((child) => child !== undefined && child.exitCode === null);
      await Promise.all(
        running.map(async (child) => {
          const exit = child && once(child, 'exit');
          child?.kill('SIGKILL');
          await exit;
        }),
      );
      await program.remove();
    },
  };
}
