import { createInterface } from 'node:readline';

export function canAsk(): boolean {
  return process.stdin.isTTY === true && process.stderr.isTTY === true;
}

/** The end of the input and Ctrl-C count as no. */
export async function confirm(question: string, signal: AbortSignal): Promise<boolean> {
  // With `terminal: true`, readline would handle Ctrl-C itself.
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
