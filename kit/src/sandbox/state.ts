import type { Attempt, Delivery } from './deliveries.js';
import type { EndpointsState } from './endpoints.js';
import type { SandboxEvent } from './events.js';
import type { Faults } from './faults.js';
import type { MovementRecord } from './movements.js';
import type { Account } from './wallets.js';

/** The state without its many items. It contains the secrets of endpoints. */
export interface StateHead {
  readonly now: number;
  readonly faults: Faults;
  readonly endpoints: EndpointsState;
  /** How many of each have been created, dropped ones included, because ids count up. */
  readonly counts: { readonly [Name in 'movements' | 'events' | 'deliveries']: number };
}

/** Everything that a sandbox keeps. */
export interface SandboxState extends StateHead {
  readonly wallets: readonly Account[];
  readonly movements: readonly MovementRecord[];
  readonly events: readonly SandboxEvent[];
  readonly deliveries: readonly Delivery[];
  readonly attempts: readonly Attempt[];
}

/** One of the many items of a sandbox. */
export type StateRecord =
  | { readonly wallet: Account }
  | MovementRecord
  | { readonly event: SandboxEvent }
  | { readonly delivery: Delivery }
  | { readonly attempt: Attempt };
