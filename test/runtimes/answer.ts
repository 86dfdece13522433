/** The server of each web-standard runtime: the checks run inside it, and the contract receiver. */

import { toFetchHandler } from 'stablehooks/fetch';
import { createContractReceiver } from 'stablehooks-kit/conformance';
import { type CoreCheck, coreChecks } from './core-checks.js';

const hooks = toFetchHandler(createContractReceiver());

/** What a runtime answers at `/checks`. */
export interface Checked {
  /** The names of the checks that ran. */
  readonly ran: readonly string[];
  /** The name and error of each that failed. */
  readonly failures: readonly string[];
}

/** Answers one request; at `/checks` it runs those of the core and those given. */
export async function answer(request: Request, checks: readonly CoreCheck[] = []): Promise<Response> {
  return new URL(request.url).pathname === '/checks'
    ? Response.json(await runChecks([...coreChecks, ...checks]))
    : hooks(request);
}

export async function runChecks(checks: readonly CoreCheck[]): Promise<Checked> {
  const failures: string[] = [];
  for (const { name, run } of checks) {
    await run().catch((error: unknown) => failures.push(`${name}: ${String(error)}`));
  }
  return { ran: checks.map(({ name }) => name), failures };
}
