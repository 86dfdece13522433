/**
 * `npm run steady`: runs `.ci/run` until it has passed five times in a row, each in a fresh clone of the last commit, while
 * another process keeps each processor busy. `-- --runs 2` ends when it has passed twice.
 *
 * Each run that passes is recorded in `steady.json`. The next call prints what is recorded and runs what is missing, as long
 * as nothing but {@link EVIDENCE} has changed. After a run that fails, the count begins again at 0.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createWriteStream, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { root } from './project/source.js';
import { readCount } from './read-count.js';

const { values } = parseArgs({ options: { runs: { type: 'string', default: '5' } } });
const runs = readCount('--runs', values.runs);

/** It ends when its parent is gone, however that ended. */
const BUSY = 'const parent = process.ppid; while (process.ppid === parent);';

/** The files to which results are written: they do not change what runs. */
const EVIDENCE = [
  'docs/security.md',
  'test/mutation/reasons.json',
  'test/mutation/results.json',
  'test/mutation/survivors.md',
  'test/steady.json',
];
const RECORD = new URL('steady.json', import.meta.url);

interface Row {
  /** The SHA-256 of everything in the commit but {@link EVIDENCE}. */
  readonly sources: string;
  /** Those that passed, in a row. */
  readonly runs: readonly { readonly date: string; readonly commit: string; readonly minutes: number }[];
}

const commit = git('rev-parse', 'HEAD');
const row = readRow();
for (const { date, commit: tested, minutes } of row.runs) {
  console.log(`recorded on ${date}: ${tested}, ${minutes} min`);
}
const cores = availableParallelism();
const busy = Array.from({ length: cores }, () => spawn(process.execPath, ['-e', BUSY], { stdio: 'ignore' }));
try {
  let passed = row.runs;
  while (passed.length < runs) {
    const run = passed.length + 1;
    const { code, minutes, log } = await runCi();
    assertBusy(busy);
    if (code !== 0) {
      write({ ...row, runs: [] });
      throw new Error(`Run ${run} of ${runs} failed with exit code ${code}. Read ${log}.`);
    }
    passed = [...passed, { date: new Date().toISOString().slice(0, 10), commit, minutes }];
    write({ ...row, runs: passed });
    console.log(`run ${run} of ${runs} on ${commit}, ${cores} of ${cores} processors busy: ${minutes} min`);
  }
} finally {
  for (const child of busy) child.kill();
}

/** The recorded row, if it is one of these sources. */
function readRow(): Row {
  const tree = git('ls-tree', '-r', commit).split('\n');
  const lines = tree.filter((line) => !EVIDENCE.some((path) => line.endsWith(`\t${path}`)));
  const sources = createHash('sha256').update(lines.join('\n')).digest('hex');
  const recorded: Row = JSON.parse(readFileSync(RECORD, 'utf8'));
  return recorded.sources === sources ? recorded : { sources, runs: [] };
}

function write(changed: Row): void {
  writeFileSync(RECORD, `${JSON.stringify(changed, null, 2)}\n`);
}

/** Runs everything in a fresh clone, which stays when that fails. */
async function runCi() {
  const folder = mkdtempSync(join(tmpdir(), 'stablehooks-steady-'));
  const clone = join(folder, 'clone');
  const log = join(folder, 'log.txt');
  git('clone', '--quiet', '--no-checkout', root, clone);
  // A commit that is made meanwhile is not in the next run.
  git('-C', clone, 'checkout', '--quiet', '--detach', commit);
  const startedAt = performance.now();
  const child = spawn(join(clone, '.ci/run'), { cwd: clone, stdio: ['ignore', 'pipe', 'pipe'] });
  const file = createWriteStream(log);
  child.stderr.pipe(file, { end: false });
  child.stdout.pipe(file, { end: false });
  createInterface(child.stdout).on('line', (line) => {
    if (/^=== .* took \d+ s$/.test(line)) console.log(line);
  });
  const [code] = await once(child, 'close');
  const minutes = Math.round((performance.now() - startedAt) / 60_000);
  if (code === 0) rmSync(folder, { recursive: true });
  return { code, minutes, log };
}

/** A run beside processes that have ended shows nothing. */
function assertBusy(children: readonly ChildProcess[]): void {
  const ended = children.filter(({ exitCode, signalCode }) => exitCode !== null || signalCode !== null);
  if (ended.length > 0) throw new Error(`${ended.length} of the busy processes ended during the run.`);
}

function git(...args: readonly string[]): string {
  return execFileSync('git', args, { cwd: root, encoding: 'utf8' }).trim();
}
