/** The Markdown tables of the benchmarks. */

/** Writes a table; the first column is text, the other columns are numbers. */
export function toTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  const rule = head.map((_, index) => (index === 0 ? ':--' : '--:'));
  return [head, rule, ...rows].map(line).join('\n');
}

/** A number with three digits that count. */
export function digits(value: number): string {
  const whole = Math.abs(value) >= 100;
  return whole ? Math.round(value).toLocaleString('en-US') : value.toPrecision(3);
}

export function sizeName(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`;
  return bytes < 1_000_000 ? `${bytes / 1_000} kB` : `${bytes / 1_000_000} MB`;
}
