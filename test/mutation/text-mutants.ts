/**
 * The mutants of SQL and Lua, which are strings to Stryker. Each is a copy of the source file with one change inside a
 * string, which vitest loads instead of the file.
 */
import ts from 'typescript';
import { createVitest } from 'vitest/node';
import { root, textOf } from '../project/source.js';
import type { Group } from './groups.js';
import { isTimeout, type Mutant, type Status } from './mutant.js';

interface TextMutant {
  readonly start: number;
  readonly end: number;
  readonly replacement: string;
}

interface Rule {
  readonly pattern: RegExp;
  /** The texts that replace a match, one mutant each. */
  readonly replace: (match: string) => readonly string[];
}

const swap = (pattern: RegExp, pairs: Readonly<Record<string, string>>): Rule => ({
  pattern,
  replace: (match) => {
    const other = pairs[match.trim()];
    return other === undefined ? [] : [match.replace(match.trim(), other)];
  },
});

const both = (pairs: Readonly<Record<string, string>>) => ({
  ...pairs,
  ...Object.fromEntries(Object.entries(pairs).map(([from, to]) => [to, from])),
});

const COMPARISONS = both({ '<': '<=', '>': '>=' });
const SIGNS = both({ '+': '-' });
const NUMBERS: Rule = {
  pattern: /(?<![\w$'".?])\d+(?![\w'".])/g,
  replace: (match) => [String(Number(match) + 1), String(Number(match) - 1)],
};

/** A term ends where the next one, the next clause or the enclosing parenthesis begins. */
const ENDS = /\b(?:AND|OR|ORDER BY|GROUP BY|RETURNING|LIMIT|UNION|ON CONFLICT|WHEN|THEN|ELSE|END|FOR)\b/y;

const SQL: readonly Rule[] = [
  swap(/ (?:<=?|>=?) /g, COMPARISONS),
  swap(/ (?:<>|!=) /g, { '<>': '=', '!=': '=' }),
  swap(/ [+-] /g, SIGNS),
  swap(/\b(?:AND|OR)\b/g, both({ AND: 'OR' })),
  swap(/\bIS (?:NOT )?NULL\b/g, both({ 'IS NULL': 'IS NOT NULL' })),
  swap(/\b(?:min|max|least|greatest)(?=\()/g, both({ min: 'max', least: 'greatest' })),
  swap(/ FOR UPDATE SKIP LOCKED\b/g, { 'FOR UPDATE SKIP LOCKED': 'FOR UPDATE' }),
  swap(/ FOR UPDATE\b(?: SKIP LOCKED)?/g, { 'FOR UPDATE': '', 'FOR UPDATE SKIP LOCKED': '' }),
  swap(/ DESC\b/g, { DESC: 'ASC' }),
  swap(/\bUNIQUE (?=INDEX)/g, { UNIQUE: '' }),
  { pattern: /\bLIMIT \S+?(?=[\s)`]|$)/g, replace: (match) => [`${match} + 1`] },
  { pattern: /(?<=\bIN \()'\w+'(?:, '\w+')+(?=\))/g, replace: withoutEach },
  { pattern: /(?<=\bORDER BY )[\w., ]+?(?= LIMIT| FOR|\)|`|$|\n)/g, replace: descendingEach },
  NUMBERS,
];

function withoutEach(list: string): readonly string[] {
  const items = list.split(', ');
  return items.map((_, index) => items.filter((_, other) => other !== index).join(', '));
}

function descendingEach(list: string): readonly string[] {
  const items = list.trim().split(', ');
  return items.flatMap((item, index) =>
    item.endsWith(' DESC') ? [] : [items.with(index, `${item} DESC`).join(', ')],
  );
}

const LUA: readonly Rule[] = [
  swap(/ (?:<=?|>=?) /g, COMPARISONS),
  swap(/ (?:==|~=) /g, both({ '==': '~=' })),
  swap(/ [+-] /g, SIGNS),
  swap(/\b(?:and|or)\b/g, both({ and: 'or' })),
  swap(/\b(?:true|false)\b/g, both({ true: 'false' })),
  { pattern: /\bnot /g, replace: () => [''] },
  { pattern: /^ *redis\.call\(.*\)$/gm, replace: () => [''] },
  swap(/\bmath\.(?:min|max)\b/g, both({ 'math.min': 'math.max' })),
  NUMBERS,
];

/** The ranges of the strings that hold SQL or Lua, with the expressions inside them. */
function* stringsOf(source: string, isCode: (text: string) => boolean): Generator<[number, number]> {
  const file = ts.createSourceFile('source.ts', source, ts.ScriptTarget.Latest, true);
  const found: [number, number][] = [];
  const visit = (node: ts.Node): void => {
    const isString = ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node);
    if ((isString || ts.isTemplateExpression(node)) && isCode(node.getText())) {
      found.push([node.getStart() + 1, node.getEnd() - 1]);
    } else {
      ts.forEachChild(node, visit);
    }
  };
  visit(file);
  yield* found;
}

/** The text with everything blank that is not SQL or Lua: expressions, comments. Offsets stay. */
function onlyCode(text: string): string {
  const blank = (part: string) => part.replaceAll(/[^\n]/g, ' ');
  return text.replaceAll(/--.*$/gm, blank).replaceAll(/\$\{(?:[^{}]|\{[^{}]*\})*\}/g, blank);
}

/** The mutants of the terms of conditions and of assignments, which need to know where they end. */
function* structural(code: string, offset: number, text: string): Generator<TextMutant> {
  for (const match of code.matchAll(/\b(?:WHERE|AND)\s/g)) {
    const start = match.index + match[0].length;
    const end = endOf(code, start, false);
    const term = text.slice(start, end).trimEnd();
    // The term stays in the text, because its parameters are bound by their number.
    if (term !== '') {
      yield {
        start: offset + start,
        end: offset + start + term.length,
        replacement: `(${term} OR 1 = 1)`,
      };
    }
  }
  // A part that several statements share begins with its assignments.
  for (const match of code.matchAll(/\bSET\s|^(?=\w+ = '\w+',)/g)) {
    let start = match.index + match[0].length;
    for (;;) {
      const end = endOf(code, start, true);
      const assignment = text.slice(start, end).trim();
      const parts = /^([\w"]+) = ([\s\S]+)$/.exec(assignment);
      // In ON CONFLICT the column alone could be that of `excluded`.
      const table =
        text
          .slice(0, start)
          .match(/(?<=UPDATE |INTO )(?:\$\{prefix\})?\w*_\w+/g)
          ?.at(-1) ?? 'stablehooks_events';
      if (parts !== null) {
        const [, column = '', value = ''] = parts;
        const at =
          offset + start + (text.slice(start, end).length - text.slice(start, end).trimStart().length);
        yield {
          start: at,
          end: at + assignment.length,
          replacement: `${column} = CASE WHEN ${value} IS NULL THEN ${table}.${column} ELSE ${table}.${column} END`,
        };
      }
      if (code[end] !== ',') break;
      start = end + 1;
    }
  }
  for (const match of code.matchAll(/\bcoalesce\(/gi)) {
    const start = match.index + match[0].length;
    const comma = endOf(code, start, true);
    if (code[comma] !== ',') continue;
    const end = endOf(code, comma + 1, true);
    const [first, second] = [text.slice(start, comma), text.slice(comma + 1, end)];
    for (const side of [first, second]) {
      yield { start: offset + match.index, end: offset + end + 1, replacement: `(${side.trim()})` };
    }
  }
}

/** Where a term ends; an assignment ends at a comma as well. */
function endOf(code: string, from: number, isAssignment: boolean): number {
  let depth = 0;
  let cases = 0;
  for (let at = from; at < code.length; at++) {
    const char = code[at];
    if (char === '(') depth += 1;
    if (char === ')' && depth-- === 0) return at;
    if (depth > 0) continue;
    if (char === ';') return at;
    if (char === ',' && isAssignment && cases === 0) return at;
    if (!/\W/.test(code[at - 1] ?? ' ')) continue;
    if (/^CASE\b/.test(code.slice(at, at + 5))) cases += 1;
    ENDS.lastIndex = at;
    const [word] = ENDS.exec(code) ?? [];
    if (word === undefined) {
      if (isAssignment && cases === 0 && /^WHERE\b/.test(code.slice(at, at + 6))) return at;
      continue;
    }
    if (cases > 0) {
      if (word === 'END') cases -= 1;
      continue;
    }
    return at;
  }
  return code.length;
}

/** `=` compares in a condition and assigns in SET. */
function* equalities(code: string, offset: number): Generator<TextMutant> {
  for (const match of code.matchAll(/ = /g)) {
    const before = code.slice(0, match.index);
    const clause = Math.max(
      ...['WHERE', 'AND', 'OR', 'ON', 'WHEN', 'CHECK'].map((word) => lastWord(before, word)),
    );
    if (clause > Math.max(...['SET', 'THEN', 'ELSE'].map((word) => lastWord(before, word)))) {
      yield { start: offset + match.index, end: offset + match.index + 3, replacement: ' <> ' };
    }
  }
}

function lastWord(text: string, word: string): number {
  return [...text.matchAll(new RegExp(`\\b${word}\\b`, 'g'))].at(-1)?.index ?? -1;
}

export function textMutantsOf(path: string): readonly TextMutant[] {
  const source = textOf(path);
  const isLua = path.endsWith('lua.ts');
  const isCode = (text: string) =>
    isLua
      ? /redis\.call|\blocal\b|\breturn\b/.test(text)
      : /\b(?:SELECT|WHERE|UPDATE|INSERT|CASE|CREATE|AND|state = )/.test(text) &&
        !/^`?\$?\{?[a-z]+\}?: /.test(text);
  const mutants: TextMutant[] = [];
  for (const [start, end] of stringsOf(source, isCode)) {
    const text = source.slice(start, end);
    const code = onlyCode(text);
    for (const { pattern, replace } of isLua ? LUA : SQL) {
      for (const match of code.matchAll(pattern)) {
        for (const replacement of replace(match[0])) {
          mutants.push({
            start: start + match.index,
            end: start + match.index + match[0].length,
            replacement,
          });
        }
      }
    }
    if (!isLua) mutants.push(...structural(code, start, text), ...equalities(code, start));
  }
  return mutants.toSorted((a, b) => a.start - b.start);
}

/** Runs each mutant of the files against the tests of their group, one after the other. */
export async function runTextMutants(
  { tests, project = 'node' }: Group,
  paths: readonly string[],
): Promise<ReadonlyMap<string, readonly Mutant[]>> {
  process.env['MUTATION_PROJECT'] = project;
  process.env['MUTATION_TESTS'] = tests.join();
  const vitest = await createVitest('test', {
    config: 'test/mutation/vitest.config.ts',
    watch: false,
    bail: 1,
    reporters: [],
    maxWorkers: 1,
    silent: true,
  });
  /** Runs the tests with this text in place of the file's. */
  const run = async (path: string, text: string): Promise<Status> => {
    process.env['MUTATION_SOURCE'] = `${root}${path}`;
    process.env['MUTATION_TEXT'] = text;
    vitest.state.filesMap.clear();
    vitest.state.errorsSet.clear();
    // The file of the mutant before can be another one.
    for (const each of paths) vitest.invalidateFile(`${root}${each}`);
    const { testModules, unhandledErrors } = await vitest.start();
    if (testModules.length === 0) throw new Error('No test ran.');
    if (unhandledErrors.length === 0 && testModules.every((module) => module.ok())) return 'survived';
    const failures = testModules.flatMap((module) => [
      ...module.errors(),
      ...[...module.children.allTests()].flatMap((test) => test.result().errors ?? []),
    ]);
    return failures.length > 0 && failures.every(isTimeout) ? 'timeout' : 'killed';
  };
  const expectGreen = async (path: string, source: string) => {
    if ((await run(path, source)) !== 'survived') {
      throw new Error(`The tests of ${path} fail without a mutant.`);
    }
  };
  const ended = new Map<string, readonly Mutant[]>();
  try {
    for (const path of paths) {
      const source = textOf(path);
      await expectGreen(path, source);
      const mutants = textMutantsOf(path);
      const results: Mutant[] = [];
      for (const { start, end, replacement } of mutants) {
        const original = source.slice(start, end);
        const line = source.slice(0, start).split('\n').length;
        const status = await run(path, source.slice(0, start) + replacement + source.slice(end));
        const mutation = `${original.trim()} → ${replacement.trim()}`;
        results.push({ line, mutation, status });
        console.log(`${results.length} of ${mutants.length}: ${path}:${line}: ${mutation}: ${status}`);
      }
      // A database that no longer starts would have killed every mutant.
      await expectGreen(path, source);
      ended.set(path, results);
    }
  } finally {
    await vitest.close();
    // Vitest sets it when a test fails, which is what a mutant is for.
    process.exitCode = 0;
  }
  return ended;
}
