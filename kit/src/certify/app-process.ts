import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { unreachableError, usageError } from '../io/errors.js';
import { redact, toPlain } from '../io/output.js';
import { SETUP, type Setup } from './protocol.js';

export interface AppOptions {
  readonly command: string;
  readonly url: URL;
  readonly env: Readonly<Record<string, string>>;
  readonly startMs: number;
  readonly signal: AbortSignal;
}

const LOOK_MS = 20;
const STOP_MS = 5_000;
const QUOTED = 1_000;

export class AppProcess {
  readonly #options: AppOptions;
  #child: ChildProcess | undefined;
  #output = '';

  constructor(options: AppOptions) {
    this.#options = options;
  }

  get isRunning(): boolean {
    return this.#child !== undefined && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** @throws {CommandError} exit 2 if another process is already listening; exit 3 if the app exits or never listens. */
  async start(setup: Setup): Promise<void> {
    const { command, url, env, startMs, signal } = this.#options;
    if (await isListening(url))
      throw usageError(
        `Another process is already listening at ${url.host}. Stop it, because certify starts the app itself.`,
      );
    const preload = `--import ${new URL('./preload.js', import.meta.url).href}`;
    this.#output = '';
    const child = spawn(command, {
      shell: true,
      // The app gets its own process group, so that wrappers such as `npm start` are killed as well.
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        ...process.env,
        ...env,
        NODE_OPTIONS: `${process.env['NODE_OPTIONS'] ?? ''} ${preload}`.trim(),
        [SETUP]: JSON.stringify(setup),
      },
    });
    this.#child = child;
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk) => {
        this.#output = `${this.#output}${chunk}`.slice(-QUOTED);
      });
    const endMs = Date.now() + startMs;
    while (!(await isListening(url))) {
      signal.throwIfAborted();
      const why = this.isRunning
        ? Date.now() > endMs && `did not listen at ${url.host} within ${startMs / 1_000} s`
        : 'exited before it listened';
      const printed = redact(toPlain(this.#output.trim().replaceAll(/\s*\n\s*/g, ' | '))) || 'nothing';
      if (why) throw unreachableError(`The app ${why}. Check --app and --url. The app printed: ${printed}`);
      await sleep(LOOK_MS);
    }
  }

  async kill(): Promise<void> {
    await this.#end('SIGKILL');
  }

  async stop(): Promise<void> {
    const limit = setTimeout(() => this.#signal('SIGKILL'), STOP_MS);
    await this.#end('SIGTERM').finally(() => clearTimeout(limit));
    // A wrapper can exit before the server that it started.
    await this.kill();
  }

  async #end(name: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    const child = this.#child;
    if (child === undefined) return;
    const closed = this.isRunning ? once(child, 'close') : undefined;
    this.#signal(name);
    await closed;
    const endMs = Date.now() + STOP_MS;
    while (name === 'SIGKILL' && (await isListening(this.#options.url))) {
      if (Date.now() > endMs)
        throw unreachableError(
          `${this.#options.url.host} is still in use after certify killed the processes that --app started. Point --app at the server itself, not at a supervisor.`,
        );
      await sleep(LOOK_MS);
    }
  }

  #signal(name: 'SIGTERM' | 'SIGKILL'): void {
    try {
      process.kill(-(this.#child?.pid ?? Number.NaN), name);
    } catch {
      // The process group has already ended.
    }
  }
}

function isListening({ hostname, port, protocol }: URL): Promise<boolean> {
  const socket = connect(
    Number(port) || (protocol === 'https:' ? 443 : 80),
    hostname.replace(/^\[|\]$/g, ''),
  );
  return new Promise((resolve) => {
    socket.on('connect', () => resolve(true)).on('error', () => resolve(false));
  }).then((value) => {
    socket.destroy();
    return value as boolean;
  });
}
