import { type CommandOptions, type Ended, run } from '../command.js';

/** A check in the output of `--json`. */
export interface CheckLine {
  readonly name: string;
  readonly verdict: string;
  readonly got: string;
  readonly elapsedMs?: number;
  readonly fix?: string;
}

/** The last line of `--json`. */
export interface Counts {
  readonly passed: number;
  readonly failed: number;
  readonly notShown: number;
}

/** The result of doctor. */
export interface Examination extends Ended {
  readonly checks: readonly CheckLine[];
  readonly counts: Counts | undefined;
  /** The checks that did not pass. */
  readonly wrong: readonly CheckLine[];
}

/** Runs `stablehooks doctor URL --run-handlers --json`. */
export async function examine(
  url: string,
  flags: readonly string[] = [],
  options: CommandOptions = {},
): Promise<Examination> {
  const ended = await run(['doctor', url, '--run-handlers', '--json', ...flags], options);
  const lines = ended.stdout
    .split('\n')
    .filter(Boolean)
    .map((line): CheckLine | Counts => JSON.parse(line));
  const checks = lines.filter((line): line is CheckLine => 'name' in line);
  const counts = lines.find((line): line is Counts => 'passed' in line);
  return { ...ended, checks, counts, wrong: checks.filter(({ verdict }) => verdict !== 'pass') };
}
