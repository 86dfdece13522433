/** The exit codes of the command line. */

/** The exit codes, as `--help` and the README document them. */
export const EXIT = {
  /** Done, or the check passed. */
  good: 0,
  /** The check failed: a signature, an endpoint, a delivery, an unproven poll. */
  failed: 1,
  /** Wrong use: a flag, a setting, a file, a refused token. */
  usage: 2,
  /** Could not reach: the network, the service, the disk. */
  unreachable: 3,
  /** Ctrl-C, as shells count it. */
  interrupted: 130,
} as const;

/** One of {@link EXIT}. */
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];
