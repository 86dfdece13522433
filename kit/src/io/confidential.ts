/** What no error message and no stack that is printed may contain. */

const values = new Set<string>();

/** Shorter values are parts of words that messages use for other things. */
const MIN_LENGTH = 6;

/** Notes a secret, a token or a password: {@link redact} removes it from now on. */
export function keepConfidential(value: string): void {
  for (const text of [value, value.trim()]) if (text.length >= MIN_LENGTH) values.add(text);
}

/** The text without the values that are confidential. */
export function redact(text: string): string {
  const longestFirst = [...values].sort((a, b) => b.length - a.length);
  return longestFirst.reduce((rest, value) => rest.replaceAll(value, '[redacted]'), text);
}

/** How many causes are printed: a chain can be a circle. */
const MAX_ERRORS = 8;

/**
 * The stack of what was thrown, and those of its causes. Without other properties: drivers keep the connection string
 * in them, and Node the input that it refused.
 */
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
