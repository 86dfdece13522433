/** All that a sandbox remembers, as one: taken from its parts, and put back in the order in which they need it. */
import type { SandboxState } from './state-file.js';

/** What a part has to do with a state file; `undefined` puts back what was at creation. */
interface Remembering<State> {
  save(): State;
  load(state: State | undefined): void;
}

/** The parts that remember something. */
type RememberingParts = {
  readonly [Part in Exclude<keyof SandboxState, 'version' | 'seed' | 'now'>]: Remembering<SandboxState[Part]>;
};

export function saveAll(
  parts: RememberingParts,
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

/** Later parts look things up in earlier ones: the order matters. */
export function loadAll(parts: RememberingParts, from: SandboxState | undefined): void {
  parts.faults.load(from?.faults);
  parts.endpoints.load(from?.endpoints);
  parts.wallets.load(from?.wallets);
  parts.movements.load(from?.movements);
  parts.events.load(from?.events);
  parts.deliveries.load(from?.deliveries);
  parts.money.load(from?.money);
}
