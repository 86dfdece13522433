import { createInterface } from 'node:readline';

/** Whether a person can answer a question, because standard input and stderr are a terminal. */
export function canAsk(): boolean {
  return process.stdin.isTTY === true && process.stderr.isTTY === true;
}

/** Asks a question on stderr. Only `y` and `yes` mean yes. The end of the input and Ctrl-C mean no. */
export async function confirm(question: string, signal: AbortSignal): Promise<boolean> {
  // With `terminal`, readline would handle Ctrl-C itself.
  const lines = createInterface({ input: process.stdin, terminal: false, signal });
  try {
    process.stderr.write(`${question} [y/N] `);
    for await (const line of lines) return /^y(es)?$/i.test(line.trim());
    return false;
  } finally {
    lines.close();
    process.stdin.destroy();
  }
}
