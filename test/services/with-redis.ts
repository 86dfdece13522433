/** Suites that need a redis-server: run where there is one, skipped with a warning on a laptop, failed in CI. */
import { spawnSync } from 'node:child_process';
import { describe } from 'vitest';
import { INSTALL_REDIS } from './redis.js';

const installed = spawnSync('redis-server', ['--version']).status === 0;

/** `describe` where redis-server is installed. Elsewhere it warns and skips on a laptop, and fails in CI. */
export function describeWithRedis(name: string, body: () => void): void {
  if (installed) {
    describe(name, body);
    return;
  }
  if (process.env['CI'])
    throw new Error(`redis-server is missing, so "${name}" cannot run. ${INSTALL_REDIS}`);
  console.warn(`\n*** SKIPPED: ${name}: redis-server is missing. ${INSTALL_REDIS} ***\n`);
  describe.runIf(installed)(name, body);
}
