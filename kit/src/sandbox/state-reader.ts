import { existsSync, readFileSync } from 'node:fs';
import { ConfigError } from 'stablehooks';
import * as z from 'zod/mini';
import type { Attempt, Delivery } from './deliveries.js';
import type { SandboxEvent } from './events.js';
import type { MovementRecord } from './movements.js';
import type { SandboxState, StateHead, StateRecord } from './state.js';
import type { Account } from './wallets.js';

/**
 * The first line of a state file is {@link HEADER}, the last one is `{ saved }` with the {@link StateHead}, and each line
 * between them is a {@link StateRecord}.
 */
export const HEADER = { stablehooks: 'sandbox state', version: 1 } as const;

/** The last line. */
export interface SavedLine {
  readonly saved: StateHead;
}

/** Each part checks its own section when it loads it. */
const section = z.looseObject({});
const identified = z.looseObject({ id: z.string() });
const lineSchema = z.union([
  z.object({
    saved: z.object({
      now: z.int(),
      faults: section,
      endpoints: section,
      counts: z.object({ movements: z.int(), events: z.int(), deliveries: z.int() }),
    }),
  }),
  z.object({ wallet: identified }),
  z.object({ movement: identified, end: z.optional(section) }),
  z.object({ event: identified }),
  z.object({ delivery: identified }),
  z.object({ attempt: z.looseObject({ deliveryId: z.string(), faults: z.array(z.string()) }) }),
]);

/**
 * Reads the file; `undefined` when it does not exist.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when it is not a state file.
 */
export function readStateFile(path: string): SandboxState | undefined {
  if (!existsSync(path)) return undefined;
  try {
    const lines = readLines(path);
    if (lines.next().value === JSON.stringify(HEADER)) return toState(lines);
  } catch {
    // No cause: the message of the parser quotes the file, which contains secrets.
  }
  throw invalidStateFile(path);
}

export function invalidStateFile(path: string | undefined): ConfigError {
  return new ConfigError(
    `${path} is not a state file of this version of the sandbox. It is unchanged. Move it to start with a new state, or pass another path.`,
  );
}

/** The lines without their ends. Not one string, because a file can be longer than a string can be. */
function* readLines(path: string): Generator<string, void> {
  const bytes = readFileSync(path);
  for (let at = 0; at < bytes.length; ) {
    const end = bytes.indexOf('\n', at);
    const until = end === -1 ? bytes.length : end;
    yield bytes.toString('utf8', at, until);
    at = until + 1;
  }
}

/** @throws when a line is not one of a state file, or the last one is missing. */
function toState(lines: Iterable<string>): SandboxState {
  const wallets: Account[] = [];
  const movements: MovementRecord[] = [];
  const events: SandboxEvent[] = [];
  const deliveries: Delivery[] = [];
  const attempts: Attempt[] = [];
  let head: StateHead | undefined;
  for (const line of lines) {
    if (head !== undefined) throw new Error('A line follows the last one.');
    const value: StateRecord | SavedLine = JSON.parse(line);
    lineSchema.parse(value);
    if ('saved' in value) head = value.saved;
    else if ('wallet' in value) wallets.push(value.wallet);
    else if ('movement' in value) movements.push(value);
    else if ('event' in value) events.push(value.event);
    else if ('delivery' in value) deliveries.push(value.delivery);
    else attempts.push(value.attempt);
  }
  if (head === undefined) throw new Error('The last line is missing.');
  return { ...head, wallets, movements, events, deliveries, attempts };
}
