/** Runs the built command as a real process and reads what it prints. */
import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const MAIN = fileURLToPath(new URL('../../dist/main.js', import.meta.url));

/** The secret that the tests sign with; no output may hold it. */
export const SECRET = 'whsec_cli_4b1d';

/** How a command is run. */
export interface CommandOptions {
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
  /** Written to its standard input, which is then closed. */
  readonly input?: string | Uint8Array;
  /** No file may grow beyond this, as on a disk that is full; a multiple of 1,024. */
  readonly fileLimitBytes?: number;
  /** Its stdout goes there in place of into a pipe. */
  readonly outputFile?: string;
}

/** How it ended. */
export interface Ended {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A command that runs. */
export interface Running {
  /** Resolves with all that was printed when it has come to hold the text; rejects when the command ends without it. */
  printed(text: string | RegExp): Promise<string>;
  /** Sends a signal, Ctrl-C by default. */
  interrupt(signal?: NodeJS.Signals): void;
  /** Closes our end of its stdout, as `head` does when it has seen enough. */
  closeOutput(): void;
  readonly ended: Promise<Ended>;
}

/** Starts it. */
export function start(
  args: readonly string[],
  { env, cwd, input, fileLimitBytes, outputFile }: CommandOptions = {},
): Running {
  const command = [process.execPath, MAIN, ...args];
  const limit = fileLimitBytes === undefined ? '' : `ulimit -f ${fileLimitBytes / 1_024};`;
  const into = outputFile === undefined ? '' : `> ${outputFile}`;
  const shell = ['bash', '--norc', '-c', `${limit} exec "$@" ${into}`, 'bash', ...command];
  const [file = '', ...rest] = limit + into === '' ? command : shell;
  const child = spawn(file, rest, {
    cwd,
    env: { PATH: process.env['PATH'], STABLEHOOKS_SECRET: SECRET, ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  const out = { stdout: '', stderr: '' };
  let all = '';
  const waiting = new Set<() => void>();
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (text: string) => {
      out[name] += text;
      all += text;
      for (const look of waiting) look();
    });
  }
  child.stdin.on('error', () => undefined);
  child.stdin.end(input);
  const ended = new Promise<Ended>((resolve) => {
    child.on('close', (exitCode) => resolve({ exitCode, ...out }));
  });
  return {
    printed: (text) =>
      new Promise((resolve, reject) => {
        const look = () => {
          if (typeof text === 'string' ? all.includes(text) : text.test(all)) resolve(all);
        };
        waiting.add(look);
        look();
        ended.then(() => reject(new Error(`It ended without printing ${text}:\n${all}`)));
      }),
    interrupt: (signal = 'SIGINT') => child.kill(signal),
    closeOutput: () => child.stdout.destroy(),
    ended,
  };
}

/** Runs it to its end. */
export function run(args: readonly string[], options?: CommandOptions): Promise<Ended> {
  return start(args, options).ended;
}

/** A folder of its own, removed when the test is over. */
export async function makeFolder(): Promise<
  { readonly at: (name: string) => string; readonly path: string } & AsyncDisposable
> {
  const path = await mkdtemp(join(tmpdir(), 'stablehooks-cli-'));
  return {
    path,
    at: (name) => join(path, name),
    [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }),
  };
}
