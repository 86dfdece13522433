/** Text for a terminal: tables whose columns line up, and nothing in them that can steer the terminal. */

/** A cell: its text, and perhaps how it is painted. */
export type Cell = string | { readonly text: string; readonly paint: (text: string) => string };

/** Writes rows under their columns' names; the last column is not padded. */
export function toTable(
  columns: readonly string[],
  { rows }: { readonly rows: readonly (readonly Cell[])[] },
): string {
  const lines = [columns.map((name) => name.toUpperCase()), ...rows];
  const widths = columns.map((_, column) =>
    // Very many rows are more than a call takes arguments.
    lines.reduce((width, line) => Math.max(width, textOf(line[column] ?? '').length), 0),
  );
  return lines
    .map((line) =>
      line
        .map((cell, column) => {
          const text = textOf(cell);
          const gap = column === line.length - 1 ? '' : ' '.repeat((widths[column] ?? 0) - text.length);
          return (typeof cell === 'string' ? text : cell.paint(text)) + gap;
        })
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

function textOf(cell: Cell): string {
  return toPlain(typeof cell === 'string' ? cell : cell.text);
}

/** Replaces control characters: what comes from the network may not move the cursor or hide a line. */
export function toPlain(text: string): string {
  return text.replaceAll(/[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu, '·');
}
