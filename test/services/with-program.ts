/** Suites that need a program: run where there is one, skipped with a warning on a laptop, failed in CI. */
import { spawnSync } from 'node:child_process';
import { describe } from 'vitest';

/** `describe` where the program is installed. Elsewhere it warns and skips on a laptop, and fails in CI. */
export function describeWith(program: string, install: string): (name: string, body: () => void) => void {
  const isInstalled = spawnSync(program, ['--version']).status === 0;
  return (name, body) => {
    if (isInstalled) {
      describe(name, body);
      return;
    }
    if (process.env['CI']) throw new Error(`${program} is missing, so "${name}" cannot run. ${install}`);
    console.warn(`\n*** SKIPPED: ${name}: ${program} is missing. ${install} ***\n`);
    describe.runIf(isInstalled)(name, body);
  };
}
