/** What commands are tried against: a sandbox on a real socket, and an endpoint that a receiver stands behind. */
import { createReceiver, type Outcome } from 'stablehooks';
import { toNodeHandler } from 'stablehooks/node';
import { createSandbox, type Sandbox, type SandboxOptions } from 'stablehooks-kit/sandbox';
import { SECRET } from './command.js';
import { serve } from './http-server.js';

/** The token of the tests' sandbox; no output may hold it. */
export const TOKEN = 'tok_cli_93fa';

/** A sandbox that listens. */
export interface Service extends AsyncDisposable {
  readonly sandbox: Sandbox;
  readonly url: string;
  /** The settings for a command. */
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

/** An endpoint, and what it received. */
export interface EndpointUnderTest extends AsyncDisposable {
  readonly url: string;
  readonly outcomes: readonly Outcome[];
  /** The ids of the events that took effect, in their order. */
  handled(): readonly string[];
}

/** Starts one; `work` runs for each event before it counts as handled. */
export async function startEndpoint(
  work: (id: string) => void | Promise<void> = () => undefined,
): Promise<EndpointUnderTest> {
  const outcomes: Outcome[] = [];
  const handler = (event: { readonly id: string }) => work(event.id);
  const receiver = createReceiver({
    secret: SECRET,
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

/** Fires so many events, a millisecond apart or more, so that their order is known. */
export function fire(sandbox: Sandbox, count: number): readonly string[] {
  return Array.from({ length: count }, () => {
    for (const start = Date.now(); Date.now() === start; );
    return sandbox.emit('transfer.settled').id;
  });
}
