/** `stablehooks/sandbox`: the whole service on a laptop. */
export type { Attempt } from './attempt.js';
export type { Chain, WalletChain } from './chains.js';
export type { ClockMode, SandboxClock } from './clock.js';
export { createSandbox } from './create-sandbox.js';
export type { Delivery, DeliveryState } from './deliveries.js';
export type { Endpoint, EndpointFetch, EndpointInput, SandboxEndpoints } from './endpoints.js';
export type { EventQuery, ListOrder, SandboxEvent } from './event-log.js';
export type { Chance, Faults, SandboxFaults } from './faults.js';
export type { FeedEntry } from './feed.js';
export type { AcceptInput, RedeemInput, SendInput, TransferInput } from './movement-inputs.js';
export type { Movement, MovementKind, MovementState, RedeemFailure, TransferFailure } from './movements.js';
export type { SandboxOptions } from './options.js';
export { type FieldError, SandboxError, type SandboxErrorCode } from './problem.js';
export type { DeliveryQuery, Sandbox, SandboxOperations } from './sandbox.js';
export type { Listening, ListenOptions } from './server.js';
export type { Account, LimitsInput, Wallet, WalletInput, WalletLimits } from './wallets.js';
