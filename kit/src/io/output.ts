import { styleText } from 'node:util';
import stringWidth from 'string-width';
import { compactJson, indentJson } from '../exact-json.js';

export const EXIT = {
  /** The command did its work, or the check passed. */
  good: 0,
  /** For example, a signature is wrong, a delivery failed or a poll proved nothing. */
  failed: 1,
  /** A flag, a setting or a file is wrong, or a token or password was rejected. */
  usage: 2,
  /** The network, the service, the disk or the inbox is unavailable. */
  unreachable: 3,
  /** Shells use the same exit code for Ctrl-C. */
  interrupted: 130,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** Without colours, each function returns its argument. */
export interface Paint {
  readonly good: (text: string) => string;
  readonly bad: (text: string) => string;
  readonly doubtful: (text: string) => string;
  readonly faint: (text: string) => string;
}

export interface Progress {
  show(done: number): void;
  /** Printing anything also removes the bar. */
  clear(): void;
}

/** On a terminal, only plain strings are wrapped. Tables, commands and JSON stay whole, so that they can be pasted. */
export type Text = string | { readonly whole: string };

/** Results go to stdout, and notes and progress go to stderr. */
export interface Printer {
  readonly json: boolean;
  readonly paint: Paint;
  /** The width of the terminal, or 80 without a terminal. */
  readonly columns: number;
  /** Without `--json`, prints the text. With `--json`, prints the data or the given JSON on one line. */
  print(
    result: { readonly text: Text | readonly Text[] } & (
      | { readonly data: unknown }
      | { readonly json: string }
    ),
  ): void;
  /** Prints a stored text unchanged, except that control characters are escaped on a terminal. */
  printExact(text: string): void;
  /** Whether stdout has accepted every result. It has not if the disk is full or a reader has closed the pipe. */
  isPrinted(): Promise<boolean>;
  /** Prints on stderr, with and without `--json`. */
  note(text: string): void;
  progress(label: string, total: number): Progress;
}

export interface Output {
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
  write(text: string, done?: (error?: Error | null) => void): unknown;
}

export interface PrinterOptions {
  readonly stdout: Output;
  readonly stderr: Output;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly json: boolean;
  readonly color: boolean;
}

/** FORCE_COLOR enables colours without a terminal. `--no-color` and NO_COLOR take precedence. */
export function createPrinter({ stdout, stderr, env, json, color }: PrinterOptions): Printer {
  const coloured = color && !json && isColoured(stdout, env);
  const style = (name: Parameters<typeof styleText>[0]) => (text: string) =>
    coloured ? styleText(name, text, { validateStream: false }) : text;
  let bar = '';
  let isLost = false;

  function clear(): void {
    if (bar !== '') stderr.write('\r\u001b[K');
    bar = '';
  }

  function write(text: string): void {
    clear();
    stdout.write(text, (error) => {
      if (error) isLost = true;
    });
  }

  return {
    json,
    paint: { good: style('green'), bad: style('red'), doubtful: style('yellow'), faint: style('dim') },
    columns: widthOf(stdout) ?? DEFAULT_COLUMNS,
    print({ text, ...result }) {
      const asJson = () => ('json' in result ? compactJson(result.json) : JSON.stringify(result.data));
      write(`${json ? escapeControls(asJson()) : wrapFor(stdout, [text].flat())}\n`);
    },
    printExact: (text) => write(stdout.isTTY === true ? `${escapeControls(text)}\n` : text),
    isPrinted: () =>
      new Promise((resolve) => {
        stdout.write('', (error) => resolve(!isLost && !error));
      }),
    note(text) {
      clear();
      stderr.write(`${wrapFor(stderr, [text])}\n`);
    },
    progress(label, total) {
      const shown = stderr.isTTY === true && env['TERM'] !== 'dumb' && total > 1;
      return {
        show(done) {
          if (!shown) return;
          const filled = Math.round((Math.min(done, total) / total) * BAR_WIDTH);
          const next = `${label} [${'#'.repeat(filled)}${'.'.repeat(BAR_WIDTH - filled)}] ${done}/${total}`;
          if (next === bar) return;
          bar = next;
          stderr.write(`\r${next}\u001b[K`);
        },
        clear,
      };
    },
  };
}

function isColoured(stdout: Output, env: PrinterOptions['env']): boolean {
  const force = env['FORCE_COLOR'];
  if (env['NO_COLOR']) return false;
  if (force !== undefined) return force !== '0' && force !== 'false';
  return stdout.isTTY === true && env['TERM'] !== 'dumb';
}

const DEFAULT_COLUMNS = 80;

/** `undefined` for a file or a pipe. */
function widthOf({ isTTY, columns }: Output): number | undefined {
  // Some terminals report 0.
  return isTTY === true ? columns || DEFAULT_COLUMNS : undefined;
}

/** Wraps prose only if the stream is a terminal. */
export function wrapFor(stream: Output, text: readonly Text[]): string {
  const columns = widthOf(stream) ?? Infinity;
  return text.map((part) => (typeof part === 'string' ? wrapWords(part, columns) : part.whole)).join('\n');
}

/** Matches the labels at the start of a line. Continuation lines are indented to the end of the labels. */
const LABELS = /^(?: *\S+ {2,})+|^ */;

const MAX_INDENT = 16;

/** A command in backticks counts as one word. */
const WORDS = /(?:`[^`]*`|\S)+/g;

/** Keeps a long word and a command in backticks whole. */
export function wrapWords(text: string, columns: number): string {
  return text
    .split('\n')
    .flatMap((line) => {
      if (stringWidth(line) <= columns) return [line];
      const label = LABELS.exec(line)?.[0] ?? '';
      const width = stringWidth(label);
      const indent = ' '.repeat(width <= MAX_INDENT ? width : 2);
      const [first = '', ...words] = line.slice(label.length).match(WORDS) ?? [];
      const lines: string[] = [];
      let current = label + first;
      for (const word of words) {
        const longer = `${current} ${word}`;
        if (stringWidth(longer) <= columns) current = longer;
        else {
          lines.push(current);
          current = indent + word;
        }
      }
      return [...lines, current];
    })
    .join('\n');
}

const BAR_WIDTH = 24;

export type Cell = string | { readonly text: string; readonly paint: (text: string) => string };

/** The last column is not padded. */
export function toTable(columns: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const lines = [columns.map((name) => name.toUpperCase()), ...rows];
  const textOf = (cell: Cell = '') => toPlain(typeof cell === 'string' ? cell : cell.text);
  const widths = columns.map((_, column) =>
    // There can be more rows than `Math.max(...)` accepts arguments.
    lines.reduce((width, line) => Math.max(width, stringWidth(textOf(line[column]))), 0),
  );
  return lines
    .map((line) =>
      line
        .map((cell, column) => {
          const text = textOf(cell);
          const gap = column === line.length - 1 ? '' : ' '.repeat((widths[column] ?? 0) - stringWidth(text));
          return (typeof cell === 'string' ? text : cell.paint(text)) + gap;
        })
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** Characters that JSON does not escape, although they move the cursor, hide a line or reverse the text after them. */
const NOT_ESCAPED_BY_JSON = /[\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

/** Text from the network must not move the cursor or hide a line. */
export function toPlain(text: string): string {
  return text.replaceAll(/\p{Cc}/gu, '·').replaceAll(NOT_ESCAPED_BY_JSON, '·');
}

/** Escapes the characters that {@link toPlain} replaces, so that the value of the JSON stays the same. */
export function escapeControls(json: string): string {
  return json.replaceAll(
    NOT_ESCAPED_BY_JSON,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** Numbers and names stay as they were written, and control characters are escaped. */
export function toPrintedJson(json: string): string {
  return escapeControls(indentJson(json));
}

/** Uses the largest one or two units, such as `2h 10m`. */
export function formatAge(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))}ms`;
  const seconds = Math.floor(ms / 1_000);
  const parts = [
    [Math.floor(seconds / 86_400), 'd'],
    [Math.floor(seconds / 3_600) % 24, 'h'],
    [Math.floor(seconds / 60) % 60, 'm'],
    [seconds % 60, 's'],
  ] as const;
  const first = parts.findIndex(([count]) => count > 0);
  const shown = parts.slice(first, first + 2).filter(([count]) => count > 0);
  return shown.map(([count, unit]) => `${count}${unit}`).join(' ');
}

/** Formats the UTC time, for example as `09:30:02Z`. */
export function formatClock(at: Date): string {
  return `${at.toISOString().slice(11, 19)}Z`;
}

/** Uses the largest unit that gives a whole number, so that flags accept the result: `300000` becomes `5m`. */
export function formatDuration(ms: number): string {
  const units = [
    [86_400_000, 'd'],
    [3_600_000, 'h'],
    [60_000, 'm'],
    [1_000, 's'],
  ] as const;
  const [size, unit] = units.find(([each]) => ms >= each && ms % each === 0) ?? [1, 'ms'];
  return `${ms / size}${unit}`;
}

const controller = new AbortController();

/** Aborts at Ctrl-C or when the output is closed. The command then finishes its current step and prints its progress. */
export const interruption: AbortSignal = controller.signal;

/** In ms. If a step takes less time, no note is printed. */
const FINISHING_NOTE_AFTER_MS = 300;

/** A second Ctrl-C ends the process immediately. */
export function watchInterruption(): void {
  const interrupt = () => {
    if (interruption.aborted) process.exit(EXIT.interrupted);
    controller.abort(new Error('interrupted'));
    setTimeout(
      () => process.stderr.write('Finishing the current step. Press Ctrl-C again to stop immediately.\n'),
      FINISHING_NOTE_AFTER_MS,
    ).unref();
  };
  process.on('SIGINT', interrupt);
  process.on('SIGTERM', interrupt);
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (!interruption.aborted) controller.abort(error);
    });
  }
}

export function isInterruption(error: unknown): boolean {
  if (!interruption.aborted) return false;
  return error === interruption.reason || (error instanceof Error && error.name === 'AbortError');
}

/** Only a full disk or a similar error counts as unreachable. Ctrl-C and a closed pipe count as interrupted. */
export function interruptedExit(): ExitCode {
  const { reason } = interruption;
  const isLost = reason instanceof Error && 'code' in reason && reason.code !== 'EPIPE';
  return isLost ? EXIT.unreachable : EXIT.interrupted;
}

/** Returns a text such as `1 event` or `1,204 events`. */
export function countOf(count: number, noun: string): string {
  return `${count.toLocaleString('en-US')} ${noun}${count === 1 ? '' : 's'}`;
}

const MAX_NAMED = 10;

export function nameSome(ids: readonly string[]): string {
  const more = ids.length > MAX_NAMED ? ` and ${ids.length - MAX_NAMED} more` : '';
  return `${toPlain(ids.slice(0, MAX_NAMED).join(', '))}${more}`;
}

/** Returns the values in the order in which they first occur. */
export function countAlike(values: readonly string[]): readonly (readonly [value: string, count: number])[] {
  const counts = new Map<string, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return [...counts];
}

/** Values that no printed message or stack may contain. */
const confidential = new Set<string>();

/** Shorter values occur as parts of ordinary words. */
const MIN_LENGTH = 6;

/** From this call on, {@link redact} removes this value. */
export function keepConfidential(value: string): void {
  for (const text of [value, value.trim()]) if (text.length >= MIN_LENGTH) confidential.add(text);
}

export function redact(text: string): string {
  const longestFirst = [...confidential].sort((a, b) => b.length - a.length);
  return longestFirst.reduce((rest, value) => rest.replaceAll(value, '[redacted]'), text);
}

/** Without this maximum, a circular chain of causes would never end. */
const MAX_ERRORS = 8;

/** Leaves out other properties, because they can contain a connection string or the rejected input. */
export function describeStack(thrown: unknown): string {
  const lines: string[] = [];
  for (let error = thrown; error !== undefined && lines.length < MAX_ERRORS; ) {
    const code = error instanceof Error && 'code' in error ? ` (${String(error.code)})` : '';
    const stack = error instanceof Error ? (error.stack ?? String(error)) : typeof error;
    lines.push(`${lines.length === 0 ? '' : 'Caused by: '}${stack}${code}`);
    error = error instanceof Error ? error.cause : undefined;
  }
  return redact(lines.join('\n'));
}
