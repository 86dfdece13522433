/** Says at the end of a run how many tests were skipped because a program is missing, and how to run them. */
import type { Reporter, TestModule } from 'vitest/node';

export class SkippedReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const counts = new Map<string, number>();
    for (const suite of modules.flatMap(({ children }) => [...children.suites()])) {
      const [, reason] = /\(skipped: (.*)\)$/.exec(suite.name) ?? [];
      if (reason === undefined) continue;
      const tests = [...suite.children.allTests()].length;
      counts.set(reason, (counts.get(reason) ?? 0) + tests);
    }
    for (const [reason, count] of counts) console.warn(`\n*** SKIPPED ${count} tests: ${reason} ***`);
  }
}
