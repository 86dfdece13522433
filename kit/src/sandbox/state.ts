import type { DeliveriesState, DeliveryRecord } from './deliveries.js';
import type { EndpointsState } from './endpoints.js';
import type { EventLogState, EventRecord } from './events.js';
import type { Faults } from './faults.js';
import type { MovementRecord, MovementsState, ScheduledEndsState } from './movements.js';
import type { WalletRecord, WalletsState } from './wallets.js';

/** Everything that a sandbox keeps. It contains the secrets of endpoints. */
export interface SandboxState {
  readonly now: number;
  readonly faults: Faults;
  readonly endpoints: EndpointsState;
  readonly wallets: WalletsState;
  readonly movements: MovementsState;
  readonly events: EventLogState;
  readonly deliveries: DeliveriesState;
  readonly money: ScheduledEndsState;
}

/** The state without its many items. */
export type StateHead = Pick<SandboxState, 'now' | 'faults' | 'endpoints'> & {
  /** How many of each have been created, dropped ones included, because ids count up. */
  readonly counts: { readonly [Name in 'movements' | 'events' | 'deliveries']: number };
};

/** One of the many items of a sandbox. */
export type StateRecord = WalletRecord | MovementRecord | EventRecord | DeliveryRecord;

/** The parts of the sandbox that have a section in the state. Loading `undefined` restores the initial state. */
type StatefulParts = {
  readonly [Name in Exclude<keyof SandboxState, 'now'>]: {
    load(state: SandboxState[Name] | undefined): void;
  };
};

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
