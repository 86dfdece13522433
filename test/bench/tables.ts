/** Reads the tables that `npm run bench` writes. */

/** The rows of the table below the heading that begins so, its head first. */
export function tableBelow(results: string, heading: string): readonly (readonly string[])[] {
  const section = results.split(/^## /m).find((text) => text.startsWith(heading));
  const lines = section?.split('\n').filter((line) => line.startsWith('| ')) ?? [];
  if (lines.length < 3) throw new Error(`The results have no table below "${heading}".`);
  const isRule = (line: string) => /^\| :?-/.test(line);
  return lines
    .filter((line) => !isRule(line))
    .map((line) =>
      line
        .slice(1, -1)
        .split('|')
        .map((cell) => cell.trim()),
    );
}

export function numberIn(cell: string | undefined): number {
  const value = Number.parseFloat((cell ?? '').replaceAll(',', ''));
  if (Number.isNaN(value)) throw new Error(`The results have "${cell}" where a number must be.`);
  return value;
}
