/** What the test scripts record of their contracts: which ran against which version, on which runtime and tree. */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
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

/** The SHA-256 of what is shipped and tested: `src` and `package.json`. */
export function hashTree(): string {
  const sources = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
    .map((path) => join('src', path))
    .filter((path) => /\.(ts|json)$/.test(path))
    .sort();
  const hash = createHash('sha256');
  for (const path of ['package.json', ...sources]) {
    const bytes = readFileSync(join(root, path));
    hash.update(`${path} ${bytes.length}\n`).update(bytes);
  }
  return hash.digest('hex');
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
    console.warn('src or package.json has changed while the suites ran, so their results are not recorded.');
    return;
  }
  mkdirSync(folder, { recursive: true });
  const path = join(folder, `${script.replaceAll(/\W/g, '-')}.jsonl`);
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
