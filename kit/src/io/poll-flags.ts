import type { Command } from 'commander';
import { readPollState } from 'stablehooks/catch-up';
import { usageError } from './errors.js';
import type { OpenInbox } from './inbox.js';
import { formatAge, formatDuration, type Printer } from './output.js';
import { parseCount, parseDuration } from './settings.js';

export interface PollFlags {
  readonly lag: number;
  readonly disorder: number;
  readonly limit: number;
  readonly maxLimit: number;
  readonly listMax?: number;
}

export function addPollFlags(command: Command): Command {
  return command
    .option(
      '--lag <duration>',
      "maximum time until a new event appears in the service's event list (lagMs)",
      parseDuration,
      300_000,
    )
    .option(
      '--disorder <duration>',
      'maximum time by which listed events can be out of order (disorderMs)',
      parseDuration,
      1_000,
    )
    .option('--limit <number>', 'number of events to request at first', parseCount, 50)
    .option('--max-limit <number>', 'maximum number of events to request (maxLimit)', parseCount, 20_000)
    .option(
      '--list-max <number>',
      'minimum number of events that the service returns if that many exist (listMax); too high a value hides missing events',
      parseCount,
    );
}

export function addProvenWithin(command: Command): Command {
  return command.option(
    '--proven-within <duration>',
    'maximum age of the last poll that proved no event is missing',
    parseDuration,
    PROVEN_MS,
  );
}

const PROVEN_MS = 3_600_000;

/** Prints a note if a proof counts only because of `--proven-within`. */
export async function noteOldProof(
  inbox: OpenInbox,
  { provenWithin }: { readonly provenWithin: number },
  printer: Printer,
): Promise<void> {
  const { watermark } = await readPollState(inbox);
  const ageMs = Date.now() - (watermark ?? 0);
  if (watermark === null || ageMs <= PROVEN_MS || ageMs > provenWithin) return;
  printer.note(
    `The last proof is ${formatAge(ageMs)} old. It counts only because you passed --proven-within ${formatDuration(provenWithin)}.`,
  );
}

export function toPollOptions({ lag: lagMs, disorder: disorderMs, limit, maxLimit, listMax }: PollFlags) {
  if (limit > maxLimit) {
    throw usageError(`--limit ${limit} exceeds --max-limit ${maxLimit}. Pass --max-limit ${limit} as well.`);
  }
  return { lagMs, disorderMs, limit, maxLimit, listMax } as const;
}
