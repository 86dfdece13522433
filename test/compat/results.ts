/** What the test scripts record of their contracts: which ran against which version, on which runtime and tree. */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../', import.meta.url));
const folder = join(root, 'test/compat/results');

/** What a contract is run against. */
export interface Subject {
  readonly kind: 'runtime' | 'framework' | 'inbox' | 'queue';
  readonly what: string;
  /** On npm; empty for what is a part of the runtime. */
  readonly packageName: string;
  /** Exact; empty for what is a part of the runtime. */
  readonly version: string;
}

/** A contract of which every case passed. */
export interface Result extends Subject {
  readonly contract: string;
  /** Such as `Node 20.20.2`. */
  readonly runtime: string;
  /** How many cases passed. */
  readonly checks: number;
}

/** A result, and what of the project it was found with. */
export interface Line extends Result {
  readonly tree: string;
}

/** This runtime. */
export const NODE = `Node ${process.versions.node}`;

/** Files and folders that decide what a result shows: what is shipped, how it is built, the suites, and what they use. */
const HASHED = [
  ...['package.json', 'package-lock.json', 'src', 'kit/src/conformance', 'build'],
  ...['adapters', 'inboxes', 'queues', 'compat', 'consumers', 'runtimes', 'services'].map(
    (name) => `test/${name}`,
  ),
  ...['child.ts', 'report.ts', 'tarball.ts', 'vitest.config.ts'].map((name) => `test/${name}`),
];

/** What the scripts themselves write into these folders. */
const WRITTEN = /^(node_modules|dist|\.next|results|next-env\.d\.ts|.*\.tsbuildinfo)$/;

/** The SHA-256 of what is shipped and of what tests it: sources, lock file, build and suites. */
export function hashTree(project = root): string {
  const hash = createHash('sha256');
  for (const path of HASHED.flatMap((each) => filesAt(project, each))) {
    const bytes = readFileSync(join(project, path));
    hash.update(`${path} ${bytes.length}\n`).update(bytes);
  }
  return hash.digest('hex');
}

/** The file at this path, or the files below it, in an order that no file system decides. */
function filesAt(project: string, path: string): readonly string[] {
  if (!statSync(join(project, path)).isDirectory()) return [path];
  return readdirSync(join(project, path))
    .filter((name) => !WRITTEN.test(name))
    .sort()
    .flatMap((name) => filesAt(project, `${path}/${name}`));
}

/**
 * Adds results to the file of this script, and drops those of earlier trees from it. A result without checks is an error:
 * nothing was shown.
 *
 * @param tree - the hash before the suites ran. If the files have changed since, nothing is recorded.
 */
export function record(
  { script, tree }: { readonly script: string; readonly tree: string },
  results: readonly Result[],
): void {
  if (results.length === 0) return;
  const empty = results.find(({ checks }) => checks < 1);
  if (empty !== undefined) throw new Error(`No check of ${empty.what} ran, so it is not recorded.`);
  if (hashTree() !== tree) {
    console.warn('The sources have changed while the suites ran, so their results are not recorded.');
    return;
  }
  mkdirSync(folder, { recursive: true });
  const path = fileOf(script);
  const kept = existsSync(path) ? linesOf(path).filter((line) => line.tree === tree) : [];
  const lines = [...kept, ...results.map((result): Line => ({ ...result, tree }))];
  writeFileSync(
    path,
    [...new Set(lines.map((line) => JSON.stringify(line)))].map((line) => `${line}\n`).join(''),
  );
}

/** All lines that the scripts recorded here, of this tree and of earlier ones. */
export function readLines(): readonly Line[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .filter((name) => name.endsWith('.jsonl'))
    .flatMap((name) => linesOf(join(folder, name)));
}

/** What this script recorded: its own file, and no other. */
export function linesOfScript(script: string): readonly Line[] {
  return existsSync(fileOf(script)) ? linesOf(fileOf(script)) : [];
}

/** Forgets what an earlier run of this script recorded. */
export function forget(script: string): void {
  rmSync(fileOf(script), { force: true });
}

function fileOf(script: string): string {
  return join(folder, `${script.replaceAll(/\W/g, '-')}.jsonl`);
}

function linesOf(path: string): readonly Line[] {
  const lines = readFileSync(path, 'utf8').split('\n').filter(Boolean);
  return lines.map((line): Line => JSON.parse(line));
}

/** The version of a package as a module in this folder resolves it. */
export function versionOf(name: string, from: string): string {
  for (let at = from; ; at = dirname(at)) {
    const manifest = join(at, 'node_modules', name, 'package.json');
    if (existsSync(manifest)) return JSON.parse(readFileSync(manifest, 'utf8')).version;
    if (at === dirname(at)) throw new Error(`${name} is not installed above ${from}.`);
  }
}
