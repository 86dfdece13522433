/** Returns a number followed by its noun, as in `1 event` or `2 events`. */
export function countOf(count: number, noun: string, plural = `${noun}s`): string {
  return `${count} ${count === 1 ? noun : plural}`;
}
