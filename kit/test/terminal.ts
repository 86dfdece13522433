/** Runs a command in a pseudo-terminal, and reads what the terminal then shows. */
import { fileURLToPath } from 'node:url';
import { spawn } from '@lydell/node-pty';
import headless from '@xterm/headless';

const MAIN = fileURLToPath(new URL('../dist/main.js', import.meta.url));

export interface TerminalOptions {
  readonly columns: number;
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Presses Ctrl-C once the screen contains this. */
  readonly interruptAt?: string | RegExp;
  /** Types the text once the screen contains this. */
  readonly type?: { readonly at: string | RegExp; readonly text: string };
}

/** The screen of a terminal after a command has ended. */
export interface Screen {
  readonly exitCode: number;
  /** The rows as the command printed them, without those that are empty at the end. */
  readonly rows: readonly string[];
  /** The rows that the terminal itself continued on the next line, because they are longer than it is wide. */
  readonly wrapped: readonly string[];
}

/** So many rows are kept: the longest output of the tests has fewer. */
const ROWS = 500;

/**
 * Runs the command and prints its exit code after it. It then waits for a key: the last bytes of a process that ends can
 * be lost with its pseudo-terminal.
 */
const SCRIPT = `trap : INT; "$@"; printf '\\nEXIT %s\\n' "$?"; read -r _`;
const EXIT = /\n\n?EXIT (\d+)$/;

export async function runInTerminal(args: readonly string[], options: TerminalOptions): Promise<Screen> {
  const { columns, env = {}, cwd, interruptAt, type } = options;
  const typing = type ?? (interruptAt === undefined ? undefined : { at: interruptAt, text: '\u0003' });
  const terminal = new headless.Terminal({ cols: columns, rows: ROWS, allowProposedApi: true });
  const pty = spawn('sh', ['-c', SCRIPT, 'sh', process.execPath, MAIN, ...args], {
    cols: columns,
    rows: ROWS,
    ...(cwd !== undefined && { cwd }),
    env: { PATH: process.env['PATH'] ?? '', TERM: 'xterm-256color', ...env },
  });
  const ended = new Promise<void>((resolve) => pty.onExit(() => resolve()));
  const exitCode = await new Promise<number>((resolve) => {
    let typed = false;
    pty.onData((data) =>
      terminal.write(data, () => {
        const { rows } = readRows(terminal);
        const [, code] = EXIT.exec(`\n${rows.join('\n')}`) ?? [];
        if (code !== undefined) resolve(Number(code));
        else if (typing !== undefined && !typed && matches(rows, typing.at)) {
          typed = true;
          pty.write(typing.text);
        }
      }),
    );
  });
  const { rows, wrapped } = readRows(terminal);
  pty.write('\n');
  await ended;
  terminal.dispose();
  return { exitCode, rows: rows.slice(0, -1), wrapped };
}

function matches(rows: readonly string[], pattern: string | RegExp): boolean {
  const text = rows.join('\n');
  return typeof pattern === 'string' ? text.includes(pattern) : pattern.test(text);
}

function readRows(terminal: headless.Terminal): Pick<Screen, 'rows' | 'wrapped'> {
  const { active } = terminal.buffer;
  const rows: string[] = [];
  const wrapped = new Set<number>();
  for (let index = 0; index < active.length; index++) {
    const line = active.getLine(index);
    // A space at the edge of a row that continues is part of the text.
    const text = line?.translateToString(active.getLine(index + 1)?.isWrapped !== true) ?? '';
    if (line?.isWrapped) {
      wrapped.add(rows.length - 1);
      rows.push(`${rows.pop() ?? ''}${text}`);
    } else rows.push(text);
  }
  while (rows.at(-1) === '') rows.pop();
  return { rows, wrapped: rows.filter((_, index) => wrapped.has(index)) };
}
