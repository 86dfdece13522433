import { spawn } from 'node:child_process';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const MAIN = fileURLToPath(new URL('../dist/main.js', import.meta.url));

/** The secret that the tests sign with. No output may contain it. */
export const SECRET = 'whsec_cli_4b1d';

/** How a command is run. */
export interface CommandOptions {
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
  /** Written to its standard input, which is then closed. */
  readonly input?: string | Uint8Array;
  /** The largest size of a file, in bytes, to imitate a full disk; a multiple of 1,024. */
  readonly fileLimitBytes?: number;
  /** Whether the rights of files hold for it, even if root runs the tests. */
  readonly obeysRights?: boolean;
  /** A command that runs it, such as one that enters another view of the files. */
  readonly within?: readonly string[];
  /** Redirects stdout to this file. */
  readonly outputFile?: string;
}

/** The result of a command. */
export interface Ended {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A running command. */
export interface Running {
  /** Resolves with the output once it contains the string; rejects if the command ends without it. */
  printed(text: string | RegExp): Promise<string>;
  /** Sends a signal, Ctrl-C by default. */
  interrupt(signal?: NodeJS.Signals): void;
  /** Closes the reading end of its stdout, as `head` does. */
  closeOutput(): void;
  readonly ended: Promise<Ended>;
}

/** Starts the built command as a process of its own. */
export function start(
  args: readonly string[],
  { env, cwd, input, obeysRights, within = [], fileLimitBytes, outputFile }: CommandOptions = {},
): Running {
  const isRoot = process.getuid?.() === 0;
  // The folder of this repository can be root's alone, so it cannot be another user.
  const drop = obeysRights && isRoot ? ['setpriv', '--bounding-set=-dac_override'] : [];
  const command = [...within, ...drop, process.execPath, MAIN, ...args];
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

/** Runs the built command to its end. */
export function run(args: readonly string[], options?: CommandOptions): Promise<Ended> {
  return start(args, options).ended;
}

/** Makes a temporary folder, which is removed at the end of the block. */
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

/** Makes a folder a project that has only this driver of an inbox. */
export async function useOnly(
  driver: string,
  folder: { readonly at: (name: string) => string },
): Promise<void> {
  const modules = fileURLToPath(new URL('../../node_modules', import.meta.url));
  await writeFile(folder.at('package.json'), '{}');
  await mkdir(folder.at('node_modules'));
  await symlink(`${modules}/${driver}`, folder.at(`node_modules/${driver}`));
}
