/** One changed source, and whether a test noticed it. */

/** How a mutant ended. `static` mutants take effect while a module loads, and are not run. */
export type Status = 'killed' | 'timeout' | 'survived' | 'no coverage' | 'static';

export interface Mutant {
  readonly line: number;
  /** The original text and its replacement. */
  readonly mutation: string;
  readonly status: Status;
}

/** Whether a test ran into its limit. A machine that is too slow has the same effect as a mutant that hangs. */
export const isTimeout = ({ message }: { readonly message: string }): boolean =>
  /timed out in \d+ms/.test(message);

/** The mutants that no test notices. */
export const survivorsOf = (mutants: readonly Mutant[]): readonly Mutant[] =>
  mutants.filter(({ status }) => status === 'survived' || status === 'no coverage');

/** The share of mutants that a test notices, in words. */
export function scoreOf(mutants: readonly Mutant[]): string {
  const run = mutants.filter(({ status }) => status !== 'static');
  const noticed = run.length - survivorsOf(run).length;
  const percent = run.length === 0 ? 'not shown' : `${((100 * noticed) / run.length).toFixed(1)} %`;
  const timeouts = run.filter(({ status }) => status === 'timeout').length;
  return `${percent} of ${run.length} mutants, ${timeouts} by a timeout; ${mutants.length - run.length} static, not run`;
}
