/** The sandbox, as those who use it see it. */
import type { Attempt } from './attempt.js';
import type { SandboxClock } from './clock.js';
import type { Delivery, DeliveryState } from './deliveries.js';
import type { SandboxEndpoints } from './endpoints.js';
import type { EventQuery, SandboxEvent } from './event-log.js';
import type { SandboxFaults } from './faults.js';
import type { FeedEntry } from './feed.js';
import type { AcceptInput, RedeemInput, SendInput, TransferInput } from './movement-inputs.js';
import type { Movement } from './movements.js';
import type { Listening, ListenOptions } from './server.js';
import type { Account, LimitsInput, Wallet, WalletInput } from './wallets.js';

/** Which deliveries or attempts to list. */
export interface DeliveryQuery {
  readonly eventId?: string | undefined;
  readonly state?: DeliveryState | undefined;
  /** @default all that are kept */
  readonly limit?: number | undefined;
}

/** What can be done in a sandbox, in this process or over HTTP. What is refused throws a `SandboxError`. */
export interface SandboxOperations {
  readonly clock: SandboxClock;
  readonly faults: SandboxFaults;
  readonly endpoints: SandboxEndpoints;
  readonly wallets: {
    create(input: WalletInput): Wallet;
    /** What is left out stays; an allowlist replaces the one before. */
    updateLimits(id: string, input: LimitsInput): Wallet;
    get(id: string): Account;
    list(): readonly Account[];
  };

  /** A deposit comes in and, once confirmed, fires `accept.confirmed`. */
  accept(input?: AcceptInput): Movement;
  /** The institution moves money: `transfer.settled`, or `transfer.failed`. */
  transfer(input?: TransferInput): Movement;
  /**
   * A wallet sends, as a transfer.
   *
   * @throws {SandboxError} `ERR_SANDBOX_NOT_ALLOWED`, `ERR_SANDBOX_OVER_PER_TX`, `ERR_SANDBOX_OVER_DAILY`,
   * `ERR_SANDBOX_OVER_BALANCE`, judged in this order; nothing has changed then and no event is fired.
   */
  send(walletId: string, input: SendInput): Movement;
  /** Money is paid out to a bank: `redeem.completed`, or `redeem.failed`. */
  redeem(input?: RedeemInput): Movement;
  /** The bank sends a completed redemption back: `redeem.failed`. @throws {SandboxError} `ERR_SANDBOX_STATE` */
  returnRedemption(id: string): Movement;

  /** Fires an event of any type and begins to deliver it. @param payload - an example of its type by default */
  emit(type: string, payload?: Readonly<Record<string, unknown>>): SandboxEvent;
  /** The truth about every event, without lag, cap or lies; newest first by default. */
  events(query?: EventQuery): readonly SandboxEvent[];
  /** Delivers an event once more to every endpoint, whatever came of it before. */
  redeliver(eventId: string): void;
  /** Newest first by when they ended; those still pending come before. */
  deliveries(query?: DeliveryQuery): readonly Delivery[];
  /** Oldest first; with a limit, the newest of them. */
  attempts(query?: Omit<DeliveryQuery, 'state'>): readonly Attempt[];
  /** Newest first. */
  movements(query?: { readonly limit?: number | undefined }): readonly Movement[];
  /**
   * Calls the listener with all that happens, until the answered function is called. What it throws is written
   * to the console and changes nothing.
   */
  subscribe(listener: (entry: FeedEntry) => void): () => void;

  /** Resolves once no movement and no delivery is pending; moves a manual clock as far as that takes. */
  settled(): Promise<void>;
  /** Makes everything as it was at creation: the same seed then gives the same ids and the same fate again. */
  reset(): void;
}

/** The service on a laptop. */
export interface Sandbox extends SandboxOperations {
  readonly token: string;
  readonly secret: string;
  /** What to pass as `seed` to have the same run again. */
  readonly seed: number;
  /** Answers a request as the service would, without a port. */
  fetch(request: Request): Promise<Response>;
  /** Listens on a port; 0 picks a free one. */
  listen(port: number, options?: ListenOptions): Promise<Listening>;
  /** Saves the state to the `stateFile`, if there is one. */
  save(): Promise<void>;
  /** Gives up what is pending, stops listening, and saves. */
  close(): Promise<void>;
}
