/** A word as a POSIX shell reads it: in quotes, if it needs them. */
export function toShellWord(word: string): string {
  return /^[\w@%+:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
