/** A terminal of a newcomer: a shell in one folder, without what this repository and its npm scripts add to the environment. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { delimiter } from 'node:path';

export interface Running {
  /** Resolves with the first match in what was printed. Rejects when the commands end without it, or the time is over. */
  printed(pattern: RegExp, signal: AbortSignal): Promise<RegExpExecArray>;
  /** Resolves with the exit code and what was printed. Rejects when the time is over. */
  ended(signal: AbortSignal): Promise<Ended>;
  /** Ends the commands and everything that they started. */
  stop(): Promise<void>;
  /** Ends them without notice, as a crash does. */
  kill(): Promise<void>;
}

interface Ended {
  readonly code: number | null;
  readonly output: string;
}

/** Starts lines as they are pasted into a terminal; their exit code is that of the last. */
export function paste(lines: string, cwd: string): Running {
  // A group of its own: npx, tsx and Next start further processes.
  const child = spawn('bash', ['-c', lines], {
    cwd,
    env: ENVIRONMENT,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  let end: Ended | undefined;
  const checks = new Set<() => void>();
  const changed = () => {
    for (const check of checks) check();
  };
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
      changed();
    });
  }
  const closed = once(child, 'close').then(([code]) => {
    end = { code, output };
    changed();
  });

  /** Waits until `look` finds something, which it does at the latest when the commands have ended. */
  function wait<Value>(look: () => Value | undefined, signal: AbortSignal): Promise<Value> {
    return new Promise((resolve, reject) => {
      const check = () => {
        const found = look();
        if (found === undefined && end === undefined && !signal.aborted) return;
        checks.delete(check);
        signal.removeEventListener('abort', check);
        if (found !== undefined) return resolve(found);
        const what = end === undefined ? 'took too long' : `ended with ${end.code}`;
        reject(new Error(`${lines.trim()}\n${what}. It printed:\n${output}`));
      };
      checks.add(check);
      signal.addEventListener('abort', check);
      check();
    });
  }

  return {
    printed: (pattern, signal) => wait(() => pattern.exec(output) ?? undefined, signal),
    ended: (signal) => wait(() => end, signal),
    // Once it has ended, another process can have its id.
    stop: async () => (end === undefined ? stopGroup(child, closed) : undefined),
    kill: async () => {
      if (end === undefined) signalGroup(child, 'SIGKILL');
      await closed;
    },
  };
}

const END_MS = 10_000;

async function stopGroup(child: ChildProcess, closed: Promise<unknown>): Promise<void> {
  const timer = setTimeout(() => signalGroup(child, 'SIGKILL'), END_MS);
  signalGroup(child, 'SIGTERM');
  await closed;
  clearTimeout(timer);
}

function signalGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  try {
    if (pid !== undefined) process.kill(-pid, signal);
  } catch {
    // All of them have ended.
  }
}

/** What an npm script adds for its own package, and what makes tools behave as in continuous integration. */
const ADDED = /^(?:npm_(?!config_)|npm_config_local_prefix$|INIT_CWD$|NODE_ENV$|CI$)/i;

const ENVIRONMENT: NodeJS.ProcessEnv = {
  ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !ADDED.test(name))),
  PATH: (process.env['PATH'] ?? '')
    .split(delimiter)
    .filter((folder) => !folder.includes('node_modules') && !folder.includes('node-gyp-bin'))
    .join(delimiter),
  NEXT_TELEMETRY_DISABLED: '1',
};
