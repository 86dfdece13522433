import type { Command } from 'commander';
import { usageError } from './errors.js';
import { parseCount, parseDuration } from './settings.js';

/** The flags that say how the list of the service is read. */
export interface PollFlags {
  readonly lag: number;
  readonly disorder: number;
  readonly limit: number;
  readonly maxLimit: number;
}

/** Adds the flags of commands that read the list of the service until it proves that nothing is missing. */
export function addPollFlags(command: Command): Command {
  return command
    .option('--lag <duration>', 'how late an event can be listed', parseDuration, 300_000)
    .option('--disorder <duration>', 'how far the list can be out of order', parseDuration, 1_000)
    .option('--limit <number>', 'how many events to ask for at first', parseCount, 50)
    .option('--max-limit <number>', 'how many events to ask for at most', parseCount, 1_000);
}

/**
 * The flags as the poller and `reconcile` take them.
 *
 * @throws {CommandError} exit 2 when `--limit` is more than `--max-limit`.
 */
export function toPollOptions({ lag: lagMs, disorder: disorderMs, limit, maxLimit }: PollFlags) {
  if (limit > maxLimit) {
    throw usageError(
      `--limit ${limit} is more than --max-limit ${maxLimit}. Pass --max-limit ${limit}, too.`,
    );
  }
  return { lagMs, disorderMs, limit, maxLimit } as const;
}
