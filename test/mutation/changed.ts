/**
 * `npm run mutation:changed`: says for each file whether its recorded result holds for the sources and tests of today,
 * and runs the mutants of changed lines. It fails if tests notice fewer than 90 % of those or of the recorded mutants of a
 * group, and if a file has no result. What has no result that holds is "not shown".
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { root } from '../project/source.js';
import { type Group, groups } from './groups.js';
import {
  blobOf,
  countsOf,
  type FileResult,
  hashOf,
  holds,
  readResults,
  scoreOf,
  survivorsOf,
  toPercent,
  toTable,
} from './record.js';
import { runStryker } from './stryker.js';

const MIN_SCORE = 90;

/** The lines that differ from the file as it was when its mutants ran, as Stryker selects them. */
function changedLines(path: string, { source }: FileResult): readonly string[] {
  const folder = mkdtempSync(join(tmpdir(), 'stablehooks-mutation-'));
  try {
    const before = join(folder, 'before.ts');
    writeFileSync(before, git(['cat-file', 'blob', source]));
    const diff = git(['diff', '--no-index', '--unified=0', '--no-color', before, join(root, path)]);
    return [...diff.matchAll(/^@@ .* \+(\d+)(?:,(\d+))? @@/gm)].map(([, line = '', count = '1']) => {
      const first = Number(line);
      // Where lines were only deleted, those beside them may have lost their guard.
      return count === '0' ? `:${Math.max(first, 1)}-${first + 1}` : `:${first}-${first + Number(count) - 1}`;
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** `git diff --no-index` exits with 1 when there is a difference. */
function git(args: readonly string[]): string {
  try {
    return execFileSync('git', args, { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  } catch (error) {
    if (error instanceof Error && 'status' in error && error.status === 1 && 'stdout' in error) {
      if (typeof error.stdout === 'string' && error.stdout !== '') return error.stdout;
    }
    throw error;
  }
}

interface Verdict {
  readonly text: string;
  readonly failed?: boolean;
}

async function judge(group: Group, path: string): Promise<Verdict> {
  const again = `run \`npm run mutation -- --file ${path}\``;
  const result = readResults()[group.name]?.[path];
  if (result === undefined) return { text: `not shown: no result; ${again}`, failed: true };
  if (holds(result, path, hashOf(group))) return { text: `shown on ${result.date}` };
  if (result.source === blobOf(path)) {
    return { text: `not shown: its tests have changed since ${result.date}; ${again}` };
  }
  if (group.kind === 'text') return { text: `not shown: it has changed since ${result.date}; ${again}` };
  const ranges = changedLines(path, result);
  const selected = ranges.map((range) => `${path}${range}`);
  const mutants = (await runStryker(group, selected)).get(path) ?? [];
  const score = scoreOf([countsOf(mutants)]);
  for (const { line, mutation } of survivorsOf(mutants)) console.log(`  ${path}:${line}: ${mutation}`);
  return {
    text: `${toPercent(score)} of ${mutants.length} mutants of the lines that have changed since ${result.date}; the others are not shown`,
    failed: score !== undefined && score < MIN_SCORE,
  };
}

let failed = false;
let notShown = 0;
for (const group of groups) {
  for (const path of group.sources) {
    const verdict = await judge(group, path);
    failed ||= verdict.failed === true;
    if (verdict.text.includes('not shown')) notShown += 1;
    console.log(`${group.name}: ${path}: ${verdict.text}`);
  }
  const recorded = Object.values(readResults()[group.name] ?? {}).map(({ counts }) => counts);
  const score = scoreOf(recorded);
  failed ||= score !== undefined && score < MIN_SCORE;
  console.log(`${group.name}: ${toPercent(score)} of the recorded mutants\n`);
}
console.log(`${toTable(readResults())}\n`);
if (notShown > 0) {
  console.log(`${notShown} files have no result that holds for the sources and tests of today.`);
}
if (failed) {
  console.error(`Tests notice fewer than ${MIN_SCORE} % of mutants, or a file has no result. Add tests.`);
  process.exitCode = 1;
}
