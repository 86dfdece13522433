/** Runs programs as processes: to their end, or until they print the address that they listen on. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';

export interface Listening {
  /** The first http address that it printed. */
  readonly address: string;
  /** What it printed to stderr so far. */
  complaints(): string;
  stop(): Promise<void>;
  /** Ends it as a crash does. */
  kill(): Promise<void>;
}

export interface Command {
  /** @default this Node */
  readonly program?: string | undefined;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** The user that it runs as. @default the user of this process */
  readonly user?: { readonly uid?: number; readonly gid?: number } | undefined;
}

function start({ program = process.execPath, args, cwd, env, user }: Command) {
  const { NODE_ENV: _, ...inherited } = process.env;
  return spawn(program, args, {
    cwd,
    env: { ...inherited, NEXT_TELEMETRY_DISABLED: '1', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    ...user,
  });
}

/** Runs a program to its end and returns its stdout; rejects with all that it printed unless it exits with 0. */
export async function run(command: Command): Promise<string> {
  const child = start(command);
  let printed = '';
  let output = '';
  child.stdout.on('data', (chunk) => {
    output += chunk;
  });
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk) => {
      printed += chunk;
    });
  }
  const [code] = await once(child, 'close');
  if (code !== 0) throw new Error(`${command.args.join(' ')} ended with ${code}:\n${printed}`);
  return output;
}

/** Looks again until it is so, for two minutes at most. */
export async function until(what: string, isSo: () => Promise<boolean>): Promise<void> {
  const end = Date.now() + 120_000;
  while (!(await isSo())) {
    if (Date.now() > end) throw new Error(`waited in vain for ${what}`);
    await pause(100);
  }
}

/** Starts a program and waits until it prints an http address. */
export async function listenAsProcess(command: Command): Promise<Listening> {
  const child = start(command);
  const ended = once(child, 'close');
  let printed = '';
  child.stderr.on('data', (chunk) => {
    printed += chunk;
  });
  const end = async (signal: 'SIGTERM' | 'SIGKILL') => {
    child.kill(signal);
    await ended;
  };
  for await (const line of createInterface({ input: child.stdout })) {
    const address = /https?:\/\/\S+/.exec(line)?.[0];
    if (address !== undefined) {
      // Keep reading, or the program stops when the pipe is full.
      child.stdout.resume();
      return {
        address,
        complaints: () => printed,
        stop: () => end('SIGTERM'),
        kill: () => end('SIGKILL'),
      };
    }
    printed += `${line}\n`;
  }
  throw new Error(`${command.args.join(' ')} ended before it listened:\n${printed}`);
}
