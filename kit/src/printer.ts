/** The printer: results on stdout for people or for machines, remarks and progress on stderr. */
import { styleText } from 'node:util';

/** Something to print: words for people, data for machines. */
export interface Result {
  readonly text: string;
  readonly data: unknown;
}

/** Colours, or nothing where they are not wanted. */
export interface Paint {
  readonly good: (text: string) => string;
  readonly bad: (text: string) => string;
  readonly doubtful: (text: string) => string;
  readonly faint: (text: string) => string;
  readonly strong: (text: string) => string;
}

/** Shows how far a long task is, on a terminal only. */
export interface Progress {
  show(done: number): void;
  /** Clears the bar; printing anything does so, too. */
  clear(): void;
}

/** Prints for one command. */
export interface Printer {
  /** Whether results are printed for machines. */
  readonly json: boolean;
  readonly paint: Paint;
  /** A result, on stdout: the text, or under `--json` the data as one line. */
  print(result: Result): void;
  /** A remark, on stderr, in both modes. */
  note(text: string): void;
  /** A bar that fills up to `total`. */
  progress(label: string, options: { readonly total: number }): Progress;
}

/** The least of a stream that the printer needs. */
export interface Output {
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
  write(text: string): unknown;
}

/** Where and how to print. */
export interface PrinterOptions {
  readonly stdout: Output;
  readonly stderr: Output;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly json: boolean;
  readonly color: boolean;
}

/** Makes a printer. Colours only on a terminal, and never under NO_COLOR (no-color.org) or `--no-color`. */
export function createPrinter({ stdout, stderr, env, json, color }: PrinterOptions): Printer {
  const coloured = color && !json && stdout.isTTY === true && !env['NO_COLOR'] && env['TERM'] !== 'dumb';
  const style = (name: Parameters<typeof styleText>[0]) => (text: string) =>
    coloured ? styleText(name, text, { validateStream: false }) : text;
  let bar = '';

  function clear(): void {
    if (bar !== '') stderr.write('\r\u001b[K');
    bar = '';
  }

  return {
    json,
    paint: {
      good: style('green'),
      bad: style('red'),
      doubtful: style('yellow'),
      faint: style('dim'),
      strong: style('bold'),
    },
    print({ text, data }) {
      clear();
      stdout.write(`${json ? JSON.stringify(data) : text}\n`);
    },
    note(text) {
      clear();
      stderr.write(`${text}\n`);
    },
    progress(label, { total }) {
      const shown = stderr.isTTY === true && env['TERM'] !== 'dumb' && total > 1;
      return {
        show(done) {
          if (!shown) return;
          const next = drawBar(label, { done, total });
          if (next === bar) return;
          bar = next;
          stderr.write(`\r${next}\u001b[K`);
        },
        clear,
      };
    },
  };
}

const BAR_WIDTH = 24;

function drawBar(label: string, { done, total }: { readonly done: number; readonly total: number }): string {
  const filled = Math.round((Math.min(done, total) / total) * BAR_WIDTH);
  return `${label} [${'#'.repeat(filled)}${'.'.repeat(BAR_WIDTH - filled)}] ${done}/${total}`;
}
