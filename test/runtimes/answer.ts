/** The server of each web-standard runtime: the checks run inside it, and the contract receiver. */

import { toFetchHandler } from 'stablehooks/fetch';
import { createContractReceiver } from '../contracts/adapter-receiver.js';
import { type CoreCheck, coreChecks } from './core-checks.js';

const hooks = toFetchHandler(createContractReceiver());

/** Answers one request; `/checks` runs the checks of the core and the given ones, and answers the failures. */
export async function answer(request: Request, checks: readonly CoreCheck[] = []): Promise<Response> {
  return new URL(request.url).pathname === '/checks'
    ? Response.json(await runChecks([...coreChecks, ...checks]))
    : hooks(request);
}

/** Runs checks and returns the name and error of each one that failed. */
export async function runChecks(checks: readonly CoreCheck[]): Promise<readonly string[]> {
  const failures: string[] = [];
  for (const { name, run } of checks) {
    await run().catch((error: unknown) => failures.push(`${name}: ${String(error)}`));
  }
  return failures;
}
