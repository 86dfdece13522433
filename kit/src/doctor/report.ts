import { type Printer, toPlain, wrapWords } from '../io/output.js';
import type { Row } from './examination.js';

export function createReport(printer: Printer, total: number) {
  const { good, bad, doubtful } = printer.paint;
  const paints = { pass: good, fail: bad, 'not shown': doubtful } as const;
  const rows: Row[] = [];
  const count = (verdict: Row['verdict']) => rows.filter((row) => row.verdict === verdict).length;
  const width = Math.max(printer.columns, MIN_COLUMNS) - INDENT;

  return {
    /** A check that did not run has no row and is named at the end. */
    add(row: Row): void {
      const { name, expected, got, verdict, elapsedMs, fix } = row;
      const words = [verdict, name, expected, toTime(elapsedMs)];
      const lines = [
        ...(rows.length === 0 ? [HEADER] : []),
        ...toLines(words, fold(toPlain(got), width), paints[verdict]),
      ];
      rows.push(row);
      if (printer.json || elapsedMs !== undefined) {
        printer.print({
          text: { whole: lines.join('\n') },
          data: { name, expected, got, verdict, elapsedMs, fix },
        });
      }
    },
    end(): void {
      const [passed, failed] = [count('pass'), count('fail')];
      // Checks that did not run because of an interruption count as not shown.
      const notShown = total - passed - failed;
      const counts = [`${passed} of ${total} passed`];
      if (failed > 0) counts.push(`${failed} failed`);
      if (notShown > 0) counts.push(`${notShown} not shown`);
      const text = [
        ...listFixes('Failed', rows, 'fail'),
        ...listFixes('Not shown', rows, 'not shown'),
        '',
        counts.join(', '),
      ];
      printer.print({ text, data: { passed, failed, notShown } });
    },
    count,
  };
}

const MIN_COLUMNS = 80;

/** All columns except the last, which uses the rest of the width. */
const COLUMNS = [
  ['verdict', 9],
  ['check', 15],
  ['expected', 10],
  ['time', 7],
] as const;

const HEADER = toLine([...COLUMNS.map(([name]) => name.toUpperCase()), 'GOT']);
const INDENT = COLUMNS.reduce((sum, [, width]) => sum + width + 2, 0);

function toLine(words: readonly string[]): string {
  return words.map((word, index) => word.padEnd(COLUMNS[index]?.[1] ?? 0)).join('  ');
}

function toLines(
  words: readonly string[],
  [first = '', ...more]: readonly string[],
  paint: (text: string) => string,
): readonly string[] {
  const line = toLine([...words, first]);
  const { length } = words[0] ?? '';
  return [
    paint(line.slice(0, length)) + line.slice(length),
    ...more.map((each) => ' '.repeat(INDENT) + each),
  ];
}

function fold(list: string, width: number): readonly string[] {
  const lines: string[] = [];
  for (const item of list.split(/(?<=,) /).flatMap((each) => wrapWords(each, width).split('\n'))) {
    const joined = `${lines.at(-1)} ${item}`;
    if (lines.length > 0 && joined.length <= width) lines[lines.length - 1] = joined;
    else lines.push(item);
  }
  return lines;
}

function toTime(ms = 0): string {
  return ms < 10_000 ? `${ms} ms` : `${(ms / 1_000).toFixed(1)} s`;
}

function listFixes(title: string, rows: readonly Row[], verdict: Row['verdict']): readonly string[] {
  const names = new Map<string, string[]>();
  for (const { name, fix, verdict: own } of rows) {
    if (own === verdict && fix !== undefined) names.set(fix, [...(names.get(fix) ?? []), name]);
  }
  const lines = [...names].map(([fix, those]) => `${those.join(', ')}: ${fix}`);
  return lines.length === 0 ? [] : ['', title, ...lines];
}
