/** Reports on stderr what is running, because the whole takes long. */
export function progress(what: string): void {
  console.error(`[${Math.round(process.uptime())} s] ${what}`);
}

/** Reports one round of a part. The first round of each part warms up. */
export function progressOf(part: string, round: number, rounds: number): void {
  progress(`${part}: ${round === 0 ? 'warming up' : `round ${round} of ${rounds}`}`);
}
