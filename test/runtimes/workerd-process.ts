/** Runs a bundled worker with a Durable Object in workerd itself, which miniflare brings, so that it can be killed. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

interface DurableWorker {
  readonly installed: string;
  /** Holds what the objects store; the next process finds it there. */
  readonly folder: string;
  readonly bundle: string;
  readonly className: string;
  /** The name of the binding by which the worker reaches its objects. */
  readonly binding: string;
  readonly compatibilityFlags?: readonly string[] | undefined;
  readonly env?: Readonly<Record<string, string>> | undefined;
}

export interface WorkerdProcess {
  readonly url: string;
  /** Ends it without notice, as a machine that fails does. */
  kill(): Promise<void>;
}

export async function startWorkerd(worker: DurableWorker): Promise<WorkerdProcess> {
  const { installed, folder } = worker;
  mkdirSync(join(folder, 'objects'), { recursive: true });
  // Cap'n Proto embeds files below the config's folder only.
  copyFileSync(worker.bundle, join(folder, 'worker.js'));
  writeFileSync(join(folder, 'config.capnp'), configOf(worker));
  const { resolve } = createRequire(join(installed, 'package.json'));
  const { default: program }: { readonly default: string } = createRequire(resolve('miniflare'))('workerd');
  const child = spawn(program, ['serve', 'config.capnp', '--control-fd=1'], {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(child, 'close');
  for await (const line of createInterface({ input: child.stdout })) {
    const { event, port } = JSON.parse(line) as { readonly event: string; readonly port?: number };
    if (event !== 'listen') continue;
    child.stdout.resume();
    const kill = async () => {
      child.kill('SIGKILL');
      await ended;
    };
    return { url: `http://127.0.0.1:${port}/`, kill };
  }
  throw new Error('workerd ended before it listened.');
}

/** A JSON string is a string of Cap'n Proto, too. */
function configOf({ className, binding, compatibilityFlags = [], env = {} }: DurableWorker): string {
  const bindings = [
    `(name = ${JSON.stringify(binding)}, durableObjectNamespace = ${JSON.stringify(className)})`,
    ...Object.entries(env).map(
      ([name, text]) => `(name = ${JSON.stringify(name)}, text = ${JSON.stringify(text)})`,
    ),
  ];
  return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "worker", worker = (
      modules = [(name = "worker.js", esModule = embed "worker.js")],
      compatibilityDate = "2025-05-01",
      compatibilityFlags = ${JSON.stringify(compatibilityFlags)},
      durableObjectNamespaces = [(className = ${JSON.stringify(className)}, uniqueKey = "objects", enableSql = true)],
      durableObjectStorage = (localDisk = "objects"),
      bindings = [${bindings.join(', ')}],
      globalOutbound = "loopback",
    )),
    (name = "objects", disk = (path = "objects", writable = true)),
    (name = "loopback", network = (allow = ["private"])),
  ],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "worker")],
);
`;
}
