/** `npm run coverage:scenarios`: what the poller must prove, and what it proves. Exits with 1 if something is not met. */
import { SCENARIOS } from './scenarios.js';

const HEAD = ['scenario', 'first release', 'required', 'now', 'met'] as const;

function toRow(cells: readonly string[]): string {
  return `| ${cells.join(' | ')} |`;
}

console.log(toRow(HEAD));
console.log(toRow(HEAD.map(() => '---')));
const failures: string[] = [];
for (const { title, before, required, run } of SCENARIOS) {
  const { now, unmet } = await run();
  console.log(toRow([title, before, required, now, unmet.length === 0 ? 'yes' : 'NO']));
  failures.push(...unmet.map((condition) => `${title}: ${condition}`));
}
if (failures.length > 0) {
  console.error(`\nNot met:\n${failures.join('\n')}`);
  process.exitCode = 1;
}
