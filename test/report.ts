/** Runs checks outside vitest and prints one line for each, and one for each case that failed. */
import type { AdapterUnderTest, ContractCase } from './contracts/index.js';

const AT_ONCE = 8;

/** Runs the cases of a contract against a server and returns the name and error of each that failed. */
export async function failuresAt(
  url: string,
  cases: readonly ContractCase<AdapterUnderTest>[],
): Promise<readonly string[]> {
  const failures: string[] = [];
  const waiting = [...cases];
  const work = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const { name } = next;
      await next.run({ url }).catch((error: unknown) => failures.push(`${name}: ${String(error)}`));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return failures;
}

export async function report(name: string, check: () => Promise<readonly string[]>): Promise<boolean> {
  const start = Date.now();
  const failures = await check().catch((error: unknown) => [String(error)]);
  const seconds = ((Date.now() - start) / 1000).toFixed(1);
  console.log(`${failures.length === 0 ? 'ok    ' : 'FAILED'} ${name} (${seconds} s)`);
  for (const failure of failures) console.log(`         ${failure}`);
  if (failures.length > 0) process.exitCode = 1;
  return failures.length === 0;
}
