/** What is recorded of each mutated file: `results.json`, and `survivors.md` for readers. */
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { filesBelow, importsOf, root, textOf } from '../project/source.js';
import { type Group, groups } from './groups.js';

/** How a mutant ended. `static` ones take effect while a module loads, and are not run. */
export type Status = 'killed' | 'timeout' | 'survived' | 'no coverage' | 'static';

/** Whether a test ran into its limit. A machine that is too slow has the same effect as a mutant that hangs. */
export const isTimeout = ({ message }: { readonly message: string }): boolean =>
  /timed out in \d+ms/.test(message);

export interface Mutant {
  readonly line: number;
  /** Its range of lines and columns, as Stryker selects it. */
  readonly range?: string;
  /** What is changed, and into what. */
  readonly mutation: string;
  readonly status: Status;
}

/** A mutant that no test noticed. */
export interface Survivor extends Mutant {
  /** The text of its line, which names it when lines are moved. */
  readonly text: string;
}

/** The mutants of one file. */
export interface FileResult {
  readonly date: string;
  /** How long the run took, of all its files. */
  readonly seconds: number;
  /** The mutated file, as `git hash-object` names it: its lines can be compared with those of today. */
  readonly source: string;
  /** The hash of the tests of the group, {@link hashOf}. */
  readonly tests: string;
  readonly counts: Readonly<Record<Status, number>>;
  readonly survivors: readonly Survivor[];
}

/** The results by group and file. */
export type Results = Readonly<Record<string, Readonly<Record<string, FileResult>>>>;

const RESULTS = new URL('results.json', import.meta.url);
const SURVIVORS = new URL('survivors.md', import.meta.url);

export const readResults = (): Results => JSON.parse(readFileSync(RESULTS, 'utf8'));

/** As `git hash-object` does. */
export function blobOf(path: string): string {
  const text = readFileSync(`${root}${path}`);
  return createHash('sha1').update(`blob ${text.length}\0`).update(text).digest('hex');
}

/** The suites that tests run: their folders, by the names that tests import. */
const SUITES: Readonly<Record<string, string>> = {
  'stablehooks-kit/conformance': 'kit/src/conformance',
  'stablehooks/testing': 'src/testing',
};

/**
 * The sha256 of what decides whether a mutant is noticed, beside the source: the tests of the group, what they import
 * from the tests and from the suites of the package, and how they run.
 */
export function hashOf({ tests }: Group): string {
  const files = new Set(['test/mutation/vitest.config.ts', ...tests]);
  // A set also yields what is added to it meanwhile.
  for (const path of files) {
    for (const { specifier, file } of importsOf(path)) {
      const suite = SUITES[specifier];
      if (suite !== undefined) for (const part of filesBelow(suite)) files.add(part);
      else if (file?.startsWith('test/') && file.endsWith('.ts')) files.add(file);
    }
  }
  const hash = createHash('sha256');
  for (const path of [...files].sort()) hash.update(path).update(textOf(path));
  return hash.digest('hex');
}

interface Run {
  readonly ended: ReadonlyMap<string, readonly Mutant[]>;
  readonly seconds: number;
}

function toResult(group: Group, path: string, mutants: readonly Mutant[], seconds: number): FileResult {
  const lines = textOf(path).split('\n');
  return {
    date: new Date().toISOString().slice(0, 10),
    seconds,
    source: blobOf(path),
    tests: hashOf(group),
    counts: countsOf(mutants),
    survivors: survivorsOf(mutants).map((mutant) => ({
      ...mutant,
      text: lines[mutant.line - 1]?.trim() ?? '',
    })),
  };
}

export const survivorsOf = (mutants: readonly Mutant[]): readonly Mutant[] =>
  mutants.filter(({ status }) => status === 'survived' || status === 'no coverage');

export function countsOf(mutants: readonly Mutant[]): FileResult['counts'] {
  const count = (status: Status) => mutants.filter((mutant) => mutant.status === status).length;
  return {
    killed: count('killed'),
    timeout: count('timeout'),
    survived: count('survived'),
    'no coverage': count('no coverage'),
    static: count('static'),
  };
}

/** Killed mutants of those that ran or that no test reached, in percent; `undefined` if there are none. */
export function scoreOf(counts: readonly FileResult['counts'][]): number | undefined {
  const total = (status: Status) => counts.reduce((sum, each) => sum + each[status], 0);
  const detected = total('killed') + total('timeout');
  const all = detected + total('survived') + total('no coverage');
  return all === 0 ? undefined : (100 * detected) / all;
}

/** Adds the results of the files of one run, and writes both files. */
export function record(group: Group, { ended, seconds }: Run): void {
  const before = readResults();
  const added = [...ended].map(([path, mutants]) => [path, toResult(group, path, mutants, seconds)] as const);
  const results: Results = {
    ...before,
    [group.name]: { ...before[group.name], ...Object.fromEntries(added) },
  };
  writeFileSync(RESULTS, `${JSON.stringify(results, null, 2)}\n`);
  writeFileSync(SURVIVORS, toMarkdown(results));
}

interface Reason {
  readonly file: string;
  /** A part of the line, of the mutation, or of both; every survivor that contains them has the reason. */
  readonly text?: string;
  readonly mutation?: string;
  readonly reason: string;
}

export const reasons: readonly Reason[] = JSON.parse(
  readFileSync(new URL('reasons.json', import.meta.url), 'utf8'),
);

export const isReasonOf = (reason: Reason, file: string, { text, mutation }: Survivor): boolean =>
  reason.file === file && text.includes(reason.text ?? '') && mutation.includes(reason.mutation ?? '');

export function reasonOf(file: string, survivor: Survivor): string | undefined {
  return reasons.find((reason) => isReasonOf(reason, file, survivor))?.reason;
}

/** Whether a recorded result is that of the sources and tests of today. */
export function holds(result: FileResult | undefined, path: string, tests: string): boolean {
  return result?.source === blobOf(path) && result.tests === tests;
}

/** The results of a group that hold today. Others show nothing. */
function resultsOf(group: Group, results: Results): readonly (readonly [string, FileResult])[] {
  const tests = hashOf(group);
  return group.sources.flatMap((path) => {
    const result = results[group.name]?.[path];
    return result !== undefined && holds(result, path, tests) ? [[path, result] as const] : [];
  });
}

export const toPercent = (score: number | undefined) =>
  score === undefined ? 'not shown' : `${score.toFixed(1)} %`;

/** A table of the groups, with what is not shown. */
export function toTable(results: Results): string {
  const rows = groups.map((group) => {
    const shown = resultsOf(group, results).map(([, { counts }]) => counts);
    const total = (status: Status) => shown.reduce((sum, counts) => sum + counts[status], 0);
    const missing = group.sources.length - shown.length;
    const score = toPercent(scoreOf(shown));
    const cells = ['killed', 'timeout', 'survived', 'no coverage', 'static'] as const;
    return `| ${group.name} | ${score} | ${cells.map(total).join(' | ')} | ${missing} of ${group.sources.length} |`;
  });
  const all = groups.flatMap((group) => resultsOf(group, results).map(([, { counts }]) => counts));
  return [
    '| group | score | killed | timeout | survived | not covered | static, not run | files not shown |',
    '| :-- | --: | --: | --: | --: | --: | --: | --: |',
    ...rows,
    '',
    `All: ${toPercent(scoreOf(all))} of ${all.reduce((sum, each) => sum + each.killed + each.timeout + each.survived + each['no coverage'], 0)} mutants.`,
  ].join('\n');
}

function toMarkdown(results: Results): string {
  const files = groups.flatMap((group) =>
    resultsOf(group, results).flatMap(([path, { survivors }]) =>
      survivors.length === 0
        ? []
        : [
            `## ${path} (${group.name})\n`,
            ...survivors.map((survivor) => {
              const { line, text, mutation, status } = survivor;
              const reason = reasonOf(path, survivor) ?? `no reason recorded (${status})`;
              return `- line ${line}, ${code(text)}: ${code(mutation)}. ${reason}`;
            }),
            '',
          ],
    ),
  );
  return `# Mutants that no test notices\n\nWritten by \`npm run mutation\`; the reasons are in \`reasons.json\`.\n\n${toTable(results)}\n\n${files.join('\n')}`;
}

const code = (text: string) => `\`\` ${text.replaceAll(/\s+/g, ' ').replaceAll('``', "''")} \`\``;
