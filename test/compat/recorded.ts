/** Marks the tests of a contract, so that the reporter records it once all of its cases have passed. */
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { TestOptions } from 'vitest';
import { type Subject, versionOf } from './results.js';

/** What a test says of itself to the reporter. */
export interface Mark extends Subject {
  readonly contract: string;
  /** How many cases the contract has. */
  readonly cases: number;
}

declare module '@vitest/runner' {
  interface TaskMeta {
    readonly recorded?: Mark;
  }
}

/** Contracts by the name that the table shows. */
type Contracts = Readonly<Record<string, readonly unknown[]>>;

/**
 * The options of each test of a contract: `test(name, recorded('queue', 'BullMQ', 'bullmq', { queueContract }), …)`.
 *
 * @param packageName - the package whose version is recorded; `''` for what is a part of the runtime.
 */
export function recorded(
  kind: Subject['kind'],
  what: string,
  packageName: string,
  contracts: Contracts,
): TestOptions {
  const [[contract, cases] = ['', []]] = Object.entries(contracts);
  const version = packageName === '' ? '' : versionOf(packageName, dirname(fileURLToPath(import.meta.url)));
  return { meta: { recorded: { kind, what, packageName, version, contract, cases: cases.length } } };
}
