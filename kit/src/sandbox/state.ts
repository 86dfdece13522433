import { readFileSync } from 'node:fs';
import { rename, writeFile } from 'node:fs/promises';
import { ConfigError } from 'stablehooks';
import * as z from 'zod/mini';
import type { DeliveriesState } from './deliveries.js';
import type { EndpointsState } from './endpoints.js';
import type { EventLogState } from './events.js';
import type { Faults } from './faults.js';
import type { Feed } from './feed.js';
import type { MovementsState, ScheduledEndsState } from './movements.js';
import type { WalletsState } from './wallets.js';

/** Everything that a sandbox keeps, as in its state file. It holds the secrets of endpoints. */
export interface SandboxState {
  /** The version of the format; another one is refused. */
  readonly version: 1;
  readonly seed: number;
  readonly now: number;
  readonly faults: Faults;
  readonly endpoints: EndpointsState;
  readonly wallets: WalletsState;
  readonly movements: MovementsState;
  readonly events: EventLogState;
  readonly deliveries: DeliveriesState;
  readonly money: ScheduledEndsState;
}

type Section = Exclude<keyof SandboxState, 'version' | 'seed' | 'now'>;

/** The parts of the sandbox that have a section in the state. Loading `undefined` restores the initial state. */
type StatefulParts = {
  readonly [Name in Section]: {
    save(): SandboxState[Name];
    load(state: SandboxState[Name] | undefined): void;
  };
};

export function saveState(
  parts: StatefulParts,
  { seed, now }: Pick<SandboxState, 'seed' | 'now'>,
): SandboxState {
  return {
    version: 1,
    seed,
    now,
    faults: parts.faults.save(),
    endpoints: parts.endpoints.save(),
    wallets: parts.wallets.save(),
    movements: parts.movements.save(),
    events: parts.events.save(),
    deliveries: parts.deliveries.save(),
    money: parts.money.save(),
  };
}

/** The order matters: later parts use earlier ones. */
export function loadState(parts: StatefulParts, state: SandboxState | undefined): void {
  parts.faults.load(state?.faults);
  parts.endpoints.load(state?.endpoints);
  parts.wallets.load(state?.wallets);
  parts.movements.load(state?.movements);
  parts.events.load(state?.events);
  parts.deliveries.load(state?.deliveries);
  parts.money.load(state?.money);
}

/** Each part checks its own section when it loads it. */
const section = z.looseObject({});
const stateSchema = z.object({
  version: z.literal(1),
  seed: z.int(),
  now: z.int(),
  faults: section,
  endpoints: section,
  wallets: section,
  movements: section,
  events: section,
  deliveries: section,
  money: section,
});

/**
 * Reads the file; `undefined` when it does not exist.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when it is not a state file.
 */
export function readStateFile(path: string): SandboxState | undefined {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (cause) {
    if (cause instanceof Error && 'code' in cause && cause.code === 'ENOENT') return undefined;
    throw new ConfigError(`The state file ${path} cannot be read. Check its permissions.`, { cause });
  }
  try {
    const state: SandboxState = JSON.parse(text);
    if (stateSchema.safeParse(state).success) return state;
  } catch {
    // Without the cause: the parser quotes the file in its message, and the file holds secrets.
  }
  throw invalidStateFile(path);
}

export function invalidStateFile(path: string | undefined): ConfigError {
  return new ConfigError(
    `${path} is not a state file of this version of the sandbox. Move it to start with a new state.`,
  );
}

/** Replaces the file in one step: a reader never sees half of it. Only its owner can read it: it holds secrets. */
async function writeStateFile(path: string, state: SandboxState): Promise<void> {
  const draft = `${path}.${process.pid}.draft`;
  await writeFile(draft, JSON.stringify(state), { mode: 0o600 });
  await rename(draft, path);
}

interface StateKeeper {
  /** Saves now. */
  save(): Promise<void>;
  /** Saves a last time and stops. */
  close(): Promise<void>;
}

/** Saves the state `saveAfterMs` after a change, and never twice at once. Without a path it saves nothing. */
export function keepState(
  parts: { readonly feed: Feed; readonly state: () => SandboxState },
  { stateFile, saveAfterMs }: { readonly stateFile?: string | undefined; readonly saveAfterMs: number },
): StateKeeper {
  if (stateFile === undefined) return { save: async () => {}, close: async () => {} };
  let writing = Promise.resolve();
  let timeout: NodeJS.Timeout | undefined;

  const save = () => {
    clearTimeout(timeout);
    timeout = undefined;
    const write = () => writeStateFile(stateFile, parts.state());
    writing = writing.then(write, write);
    return writing;
  };
  const warn = (error: Error) =>
    console.error(`stablehooks: the sandbox could not save its state to ${stateFile}: ${error.message}`);
  const unsubscribe = parts.feed.subscribe(() => {
    // A failure does not end the sandbox: the next save tries again, and `close` rejects.
    timeout ??= setTimeout(() => save().catch(warn), saveAfterMs).unref();
  });
  return {
    save,
    close: () => {
      unsubscribe();
      return save();
    },
  };
}
