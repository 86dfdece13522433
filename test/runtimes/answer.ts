import { createContractReceiver } from 'stablehooks/conformance';
import { toFetchHandler } from 'stablehooks/fetch';
import { type CoreCheck, coreChecks } from './core-checks.js';

const hooks = toFetchHandler(createContractReceiver());

/** Answers `/checks` with the checks that fail in this runtime, and any other path with the contract receiver. */
export async function answer(request: Request): Promise<Response> {
  return new URL(request.url).pathname === '/checks'
    ? Response.json(await failuresOf(coreChecks))
    : hooks(request);
}

/** Runs the checks. Returns the name and error of each that fails. */
export async function failuresOf(checks: readonly CoreCheck[]): Promise<readonly string[]> {
  const failures: string[] = [];
  for (const { name, run } of checks) {
    await run().catch((error: unknown) => failures.push(`${name}: ${String(error)}`));
  }
  return failures;
}
