import { createReceiver, type Outcome } from 'stablehooks';
import { toNodeHandler } from 'stablehooks/node';
import { createSandbox, type Sandbox, type SandboxOptions } from 'stablehooks-kit/sandbox';
import { SECRET } from './command.js';
import { serve } from './http-server.js';

/** The token of the sandbox in the tests. No output may contain it. */
export const TOKEN = 'tok_cli_93fa';

/** A logger for receivers whose lines no test reads. */
export const SILENT = { warn: () => undefined, error: () => undefined };

/** A sandbox on a socket. */
export interface Service extends AsyncDisposable {
  readonly sandbox: Sandbox;
  readonly url: string;
  /** The environment of a command that uses it. */
  readonly env: Readonly<Record<string, string>>;
}

export async function startService(options: SandboxOptions = {}): Promise<Service> {
  const sandbox = createSandbox({ token: TOKEN, secret: SECRET, ...options });
  const { url } = await sandbox.listen(0);
  return {
    sandbox,
    url,
    env: { STABLEHOOKS_BASE_URL: url, STABLEHOOKS_TOKEN: TOKEN, STABLEHOOKS_SECRET: SECRET },
    [Symbol.asyncDispose]: () => sandbox.close(),
  };
}

/** An endpoint with a receiver, and what it received. */
export interface EndpointUnderTest extends AsyncDisposable {
  readonly url: string;
  readonly outcomes: readonly Outcome[];
  /** The ids of the handled events, in their order. */
  handled(): readonly string[];
}

/** Starts an endpoint. `work` is its handler for every type. */
export async function startEndpoint(
  work: (id: string) => void | Promise<void> = () => undefined,
): Promise<EndpointUnderTest> {
  const outcomes: Outcome[] = [];
  const handler = (event: { readonly id: string }) => work(event.id);
  const receiver = createReceiver({
    secret: SECRET,
    logger: SILENT,
    onOutcome: (outcome) => void outcomes.push(outcome),
    handlers: {
      'accept.confirmed': handler,
      'transfer.settled': handler,
      'transfer.failed': handler,
      'redeem.completed': handler,
      'redeem.failed': handler,
    },
  });
  const server = await serve(toNodeHandler(receiver));
  return {
    url: `${server.url}/hooks`,
    outcomes,
    handled: () => outcomes.flatMap(({ kind, event }) => (kind === 'handled' && event ? [event.id] : [])),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

/** Fires events with different `created_at`, so that their order is known. */
export function fire(sandbox: Sandbox, count: number): readonly string[] {
  return Array.from({ length: count }, () => {
    for (const start = Date.now(); Date.now() === start; );
    return sandbox.emit('transfer.settled').id;
  });
}

/** The settings that `stablehooks sandbox` printed, as the environment of other commands. */
export function pasted(output: string): Record<string, string> {
  return Object.fromEntries(
    [...output.matchAll(/^export (\w+)=(.*)$/gm)].map(([, name, value]) => [name, value]),
  );
}
