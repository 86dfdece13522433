/** Suites that need a program: run where there is one, skipped on a laptop without it, failed in CI. */
import { spawnSync } from 'node:child_process';
import { describe } from 'vitest';

/** `describe` where the program is installed. Elsewhere it skips on a laptop, with the reason in its name, and fails in CI. */
export function describeWith(program: string, install: string): (name: string, body: () => void) => void {
  const isInstalled = spawnSync(program, ['--version']).status === 0;
  return (name, body) => {
    if (isInstalled) {
      describe(name, body);
      return;
    }
    if (process.env['CI']) throw new Error(`${program} is missing, so "${name}" cannot run. ${install}`);
    describe.runIf(isInstalled)(`${name} (skipped: ${program} is missing. ${install})`, body);
  };
}
