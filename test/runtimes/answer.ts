/** The server of each web-standard runtime: the checks run inside it, and the contract receiver. */
import { createContractReceiver } from 'stablehooks/conformance';
import { toFetchHandler } from 'stablehooks/fetch';
import { type CoreCheck, coreChecks } from './core-checks.js';

const hooks = toFetchHandler(createContractReceiver());

/** Answers one request; `/checks` lists the checks that failed. */
export async function answer(request: Request): Promise<Response> {
  return new URL(request.url).pathname === '/checks'
    ? Response.json(await failuresOf(coreChecks))
    : hooks(request);
}

/** Runs the checks and returns the name and error of each that failed. */
export async function failuresOf(checks: readonly CoreCheck[]): Promise<readonly string[]> {
  const failures: string[] = [];
  for (const { name, run } of checks) {
    await run().catch((error: unknown) => failures.push(`${name}: ${String(error)}`));
  }
  return failures;
}
