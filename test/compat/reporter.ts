/** Records the contracts whose tests are marked, when all cases of one have passed in a file. */
import type { Reporter, TestModule } from 'vitest/node';
import type { Mark } from './recorded.js';
import { hashTree, NODE, type Result, record } from './results.js';

export class CompatibilityReporter implements Reporter {
  readonly #script: string;
  #tree = '';

  /** @param script - the name of the file of results. */
  constructor(script: string) {
    this.#script = script;
  }

  onTestRunStart(): void {
    this.#tree = hashTree();
  }

  onTestRunEnd(modules: readonly TestModule[]): void {
    record(
      { script: this.#script, tree: this.#tree },
      modules.flatMap((module) => resultsOf(module)),
    );
  }
}

function resultsOf(module: TestModule): readonly Result[] {
  const found = new Map<string, { readonly mark: Mark; readonly passed: Set<string>; failed: number }>();
  for (const task of module.children.allTests()) {
    const { recorded: mark } = task.meta();
    if (mark === undefined) continue;
    const key = JSON.stringify(mark);
    const entry = found.get(key) ?? { mark, passed: new Set(), failed: 0 };
    found.set(key, entry);
    if (task.result().state === 'passed') entry.passed.add(task.name);
    else entry.failed += 1;
  }
  return [...found.values()]
    .filter(({ mark, passed, failed }) => failed === 0 && passed.size === mark.cases)
    .map(({ mark: { cases: checks, ...rest } }) => ({ ...rest, runtime: NODE, checks }));
}
