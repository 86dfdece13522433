/**
 * `npm run compat:table` writes docs/compatibility.md from what the test scripts recorded on this tree. `-- --check` compares
 * the page with the records and changes nothing. `-- --drop` also removes rows that were not run.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parsePage, renderPage, renderRow, rowsOf } from './page.js';
import { hashTree, readLines } from './results.js';

const path = fileURLToPath(new URL('../../docs/compatibility.md', import.meta.url));
const SCRIPTS = 'npm test, test:slow, test:runtimes, test:consumers and test:compat';

const [check, drop] = ['--check', '--drop'].map((flag) => process.argv.includes(flag));
const tree = hashTree();
const lines = readLines();
const current = lines.filter((line) => line.tree === tree);
const ran = rowsOf(current).map(renderRow);
const page = existsSync(path) ? readFileSync(path, 'utf8') : '';
const shown = parsePage(page).map(renderRow);

const notRun = shown.filter((row) => !ran.includes(row));
const missing = ran.filter((row) => !shown.includes(row));

for (const { kind, what, version, contract, runtime, checks } of current) {
  console.log(`${kind}: ${`${what} ${version}`.trim()}, ${contract}: ${checks} checks on ${runtime}`);
}
const stale = lines.length - current.length;
if (stale > 0) console.log(`${stale} records are of another state of the sources and do not count.`);

const complaints = [
  ...(drop ? [] : notRun.map((row) => `Not run on this commit: ${row}`)),
  ...(check ? missing.map((row) => `Run, but not on the page: ${row}`) : []),
];
if (ran.length === 0) complaints.push('Nothing was recorded on this commit.');
if (complaints.length > 0) {
  for (const complaint of complaints) console.error(complaint);
  console.error(
    `docs/compatibility.md ${check ? 'does not show what ran' : 'was not changed'}. Run ${SCRIPTS}, then npm run compat:table.`,
  );
  process.exitCode = 1;
} else if (check) {
  console.log(`Each of the ${shown.length} rows of docs/compatibility.md was run on this commit.`);
} else {
  writeFileSync(path, renderPage(rowsOf(current)));
}
