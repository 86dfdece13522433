import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';

/** A server that the tests start, take away and bring back. */
export interface Service extends AsyncDisposable {
  readonly port: number;
  readonly url: string;
  /** Ends every connection and comes back with the same data. */
  restart(): Promise<void>;
  /** Ends every connection; `start` brings it back. */
  halt(): Promise<void>;
  start(): Promise<void>;
  stop(): Promise<void>;
}

interface Program extends Pick<Service, 'port' | 'url'> {
  readonly command: readonly [program: string, ...args: string[]];
  readonly options?: SpawnOptions;
  /** It prints this when it accepts connections. */
  readonly ready: string;
  /** Holds its data, and is removed when it stops. */
  readonly folder: string;
  /** The signal that ends it in order. */
  readonly halt: NodeJS.Signals;
  /** The signal that ends it immediately. */
  readonly stop: NodeJS.Signals;
  /** Says how to install a program that is missing. */
  readonly install?: string;
}

/** Starts a server program, and resolves when it accepts connections. */
export async function startProgram(program: Program): Promise<Service> {
  const { port, url, ready, folder, install = '' } = program;
  const [name, ...args] = program.command;
  let server: ChildProcess | undefined;
  // A test process that ends early stops its server.
  const abort = () => server?.kill(program.stop);
  process.once('exit', abort);

  async function start() {
    const child = spawn(name, args, { ...program.options, stdio: ['ignore', 'pipe', 'pipe'] });
    server = child;
    await new Promise<void>((resolve, reject) => {
      let printed = '';
      const read = (chunk: Buffer) => {
        printed += chunk;
        if (!printed.includes(ready)) return;
        // Keep reading, or the server stops when the pipe is full.
        for (const stream of [child.stdout, child.stderr]) stream.off('data', read).resume();
        resolve();
      };
      for (const stream of [child.stdout, child.stderr]) stream.on('data', read);
      child.once('error', (cause) => reject(new Error(`${name} cannot be started. ${install}`, { cause })));
      child.once('close', () => reject(new Error(`${name} ended before it was ready:\n${printed}`)));
    });
  }
  async function end(signal: NodeJS.Signals) {
    if (server === undefined || server.exitCode !== null || server.signalCode !== null) return;
    const exit = once(server, 'exit');
    server.kill(signal);
    await exit;
  }
  const halt = () => end(program.halt);
  async function stop() {
    await end(program.stop);
    process.off('exit', abort);
    await rm(folder, { recursive: true, force: true });
  }

  await start();
  return {
    port,
    url,
    async restart() {
      await halt();
      await start();
    },
    halt,
    start,
    stop,
    [Symbol.asyncDispose]: stop,
  };
}
