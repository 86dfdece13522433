/** What the server of each web-standard runtime answers: the checks it ran inside, and the contract receiver. */

import { createContractReceiver } from 'stablehooks/conformance';
import { toFetchHandler } from 'stablehooks/fetch';
import { type CoreCheck, coreChecks } from './core-checks.js';

const hooks = toFetchHandler(createContractReceiver());

/** Answers one request; `/checks` is the list of what failed. */
export async function answer(request: Request): Promise<Response> {
  return new URL(request.url).pathname === '/checks'
    ? Response.json(await failuresOf(coreChecks))
    : hooks(request);
}

/** Runs the checks, and says of each that failed why. */
export async function failuresOf(checks: readonly CoreCheck[]): Promise<readonly string[]> {
  const failures: string[] = [];
  for (const { name, run } of checks) {
    await run().catch((error: unknown) => failures.push(`${name}: ${String(error)}`));
  }
  return failures;
}
