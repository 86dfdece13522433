/** The state file: one JSON file, written whole and put in place in one step, so that none is ever half written. */
import { readFileSync } from 'node:fs';
import { rename, writeFile } from 'node:fs/promises';
import { ConfigError } from 'stablehooks';
import * as z from 'zod/mini';
import type { DeliveriesState } from './deliveries.js';
import type { EndpointsState } from './endpoints.js';
import type { EventLogState } from './event-log.js';
import type { Faults } from './faults.js';
import type { MoneyState } from './money.js';
import type { MovementsState } from './movements.js';
import type { WalletsState } from './wallets.js';

/** Everything that a sandbox remembers. It holds the secrets of endpoints. */
export interface SandboxState {
  /** The form of this file; another one is refused. */
  readonly version: 1;
  readonly seed: number;
  readonly now: number;
  readonly faults: Faults;
  readonly endpoints: EndpointsState;
  readonly wallets: WalletsState;
  readonly movements: MovementsState;
  readonly events: EventLogState;
  readonly deliveries: DeliveriesState;
  readonly money: MoneyState;
}

/** What is checked before any part takes its own: what is wrong inside, the part finds out. */
const part = z.looseObject({});
const form = z.object({
  version: z.literal(1),
  seed: z.int(),
  now: z.int(),
  faults: part,
  endpoints: part,
  wallets: part,
  movements: part,
  events: part,
  deliveries: part,
  money: part,
});

/**
 * Reads the file; `undefined` when there is none yet.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when it is there and is not the state of a sandbox.
 */
export function readState(path: string): SandboxState | undefined {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (cause) {
    if (cause instanceof Error && 'code' in cause && cause.code === 'ENOENT') return undefined;
    throw new ConfigError(`The state file ${path} cannot be read. Check its rights.`, { cause });
  }
  try {
    const state: SandboxState = JSON.parse(text);
    if (form.safeParse(state).success) return state;
  } catch {
    // The parser's words would quote the file, and it holds secrets.
  }
  throw notState(path);
}

/** What to say of a file that is there and cannot be loaded. */
export function notState(path: string | undefined): ConfigError {
  return new ConfigError(`${path} is not the state of this release's sandbox. Move it away to start anew.`);
}

/** Writes the file beside its place, then moves it there. Only its owner can read it: it holds secrets. */
export async function writeState(path: string, state: SandboxState): Promise<void> {
  const draft = `${path}.${process.pid}.draft`;
  await writeFile(draft, JSON.stringify(state), { mode: 0o600 });
  await rename(draft, path);
}
