/** A word for a POSIX shell, quoted if necessary. */
export function toShellWord(word: string): string {
  return /^[\w@%+:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
