/** The nearest name to one that was mistyped. */

/** The candidate with the fewest edits, when it is near enough to be meant. */
export function nearestName(typed: string, candidates: readonly string[]): string | undefined {
  const near = candidates
    .map((name) => ({ name, edits: countEdits(typed.toLowerCase(), name.toLowerCase()) }))
    .filter(({ name, edits }) => edits <= Math.max(2, name.length / 3));
  return near.sort((a, b) => a.edits - b.edits)[0]?.name;
}

/** How many letters must be added, dropped or exchanged (Levenshtein). */
function countEdits(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (const [index, letter] of [...from].entries()) {
    const next = [index + 1];
    for (let column = 1; column <= to.length; column++) {
      const exchange = (row[column - 1] ?? 0) + (letter === to[column - 1] ? 0 : 1);
      next.push(Math.min(exchange, (row[column] ?? 0) + 1, (next[column - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[to.length] ?? 0;
}
