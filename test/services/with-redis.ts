/** Suites that need a redis-server: run where there is one, skipped loudly on a laptop, a failure in CI. */
import { spawnSync } from 'node:child_process';
import { describe } from 'vitest';

const installed = spawnSync('redis-server', ['--version']).status === 0;

/** `describe` where there is a redis-server. Where there is none: a loud skip on a laptop, a failure in CI. */
export function describeWithRedis(name: string, body: () => void): void {
  if (installed) {
    describe(name, body);
    return;
  }
  const remedy = 'Install it: `apt-get install redis-server`, or `brew install redis`.';
  if (process.env['CI']) throw new Error(`redis-server is missing, so "${name}" cannot run. ${remedy}`);
  console.warn(`\n*** SKIPPED: ${name}: redis-server is missing. ${remedy} ***\n`);
  describe.runIf(installed)(name, body);
}
