import { closeSync, existsSync, fstatSync, openSync, readSync } from 'node:fs';
import { StringDecoder } from 'node:string_decoder';
import { ConfigError } from 'stablehooks';
import * as z from 'zod/mini';
import type { Attempt, Delivery } from './deliveries.js';
import type { EventRecord } from './events.js';
import type { MovementRecord } from './movements.js';
import type { SandboxState, StateHead, StateRecord } from './state.js';
import type { WalletRecord } from './wallets.js';

/**
 * A state file is a log: its first line is {@link HEADER}, each other line is a {@link StateRecord}, and a line `{ saved }`
 * with the {@link StateHead} ends each save. Lines after the last of these belong to an interrupted save, and do not count.
 */
export const HEADER = { stablehooks: 'sandbox state', version: 1 } as const;

/** The line that ends a save. */
export interface SavedLine {
  readonly saved: StateHead;
}

/** The content of a state file. */
export interface ReadState {
  readonly state: SandboxState;
  /** Whether the next save can be appended, which it cannot after an interrupted save or half a line. */
  readonly appendable: boolean;
}

/** Each part checks its own section when it loads it. */
const section = z.looseObject({});
const savedSchema = z.object({
  now: z.int(),
  faults: section,
  endpoints: section,
  counts: z.object({ movements: z.int(), events: z.int(), deliveries: z.int() }),
});
const identified = z.looseObject({ id: z.string() });
const recordSchema = z.union([
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
export function readStateFile(path: string): ReadState | undefined {
  if (!existsSync(path)) return undefined;
  try {
    const lines = readLines(path);
    const first = lines.next();
    if (first.done !== true && first.value === JSON.stringify(HEADER)) {
      const { state, appendable } = readLog(lines);
      // Appended text would become part of the line.
      return { state, appendable: appendable && endsWithLine(path) };
    }
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

function endsWithLine(path: string): boolean {
  const file = openSync(path, 'r');
  try {
    const last = Buffer.alloc(1);
    readSync(file, last, 0, 1, fstatSync(file).size - 1);
    return last.toString() === '\n';
  } finally {
    closeSync(file);
  }
}

const CHUNK_BYTES = 1_048_576;

/** The lines without their ends. Not one string, because a log can be longer than a string can be. */
function* readLines(path: string): Generator<string, void> {
  const file = openSync(path, 'r');
  try {
    const decoder = new StringDecoder('utf8');
    const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
    let rest = '';
    for (let length = readSync(file, chunk); length > 0; length = readSync(file, chunk)) {
      const [first = '', ...others] = decoder.write(chunk.subarray(0, length)).split('\n');
      rest += first;
      for (const other of others) {
        yield rest;
        rest = other;
      }
    }
    if (rest !== '') yield rest;
  } finally {
    closeSync(file);
  }
}

/** @throws when a line before the last complete save is not a line of the log. */
function readLog(lines: Iterable<string>): ReadState {
  const log = createLog();
  let saved: StateHead | undefined;
  let batch: StateRecord[] = [];
  let torn: Error | undefined;
  for (const line of lines) {
    // Only the end of a file can be torn: a save completed after this line, so the file was changed by hand.
    if (torn !== undefined) throw torn;
    const value = parseLine(line);
    if (value === undefined) torn = new Error('A line does not belong to the log.');
    else if ('saved' in value) {
      for (const record of batch) log.apply(record);
      batch = [];
      saved = value.saved;
    } else batch.push(value);
  }
  if (saved === undefined) throw new Error('No save was completed.');
  return { state: log.toState(saved), appendable: torn === undefined && batch.length === 0 };
}

/** `undefined` when it is not a line of the log. */
function parseLine(line: string): StateRecord | SavedLine | undefined {
  let value: StateRecord | SavedLine;
  try {
    value = JSON.parse(line);
  } catch {
    return undefined;
  }
  if (typeof value !== 'object' || value === null) return undefined;
  const valid = 'saved' in value ? savedSchema.safeParse(value.saved) : recordSchema.safeParse(value);
  return valid.success ? value : undefined;
}

/** Collects the newest record of each id. */
function createLog() {
  const wallets = new Map<string, WalletRecord['wallet']>();
  const movements = new Map<string, MovementRecord>();
  const events = new Map<string, EventRecord['event']>();
  const deliveries = new Map<string, Delivery>();
  const attempts = new Map<string, Attempt>();
  return {
    apply(record: StateRecord): void {
      if ('wallet' in record) wallets.set(record.wallet.id, record.wallet);
      else if ('movement' in record) movements.set(record.movement.id, record);
      else if ('event' in record) events.set(record.event.id, record.event);
      else if ('delivery' in record) {
        const { delivery } = record;
        // Ended deliveries are in the order in which they ended.
        if (delivery.state !== 'pending') deliveries.delete(delivery.id);
        deliveries.set(delivery.id, delivery);
      } else {
        const { deliveryId, number, faults } = record.attempt;
        attempts.set(`${deliveryId}:${number}:${faults.includes('duplicate')}`, record.attempt);
      }
    },
    toState({ counts, ...rest }: StateHead): SandboxState {
      const moved = [...movements.values()];
      return {
        ...rest,
        wallets: { accounts: [...wallets.values()] },
        movements: { count: counts.movements, movements: moved.map(({ movement }) => movement) },
        events: { count: counts.events, events: [...events.values()] },
        deliveries: {
          count: counts.deliveries,
          deliveries: [...deliveries.values()],
          attempts: [...attempts.values()],
        },
        money: { endings: moved.flatMap(({ end }) => (end === undefined ? [] : [end])) },
      };
    },
  };
}
