import type { Wallet } from 'stablehooks/client';
import type { Verdict } from '../explain/verdict.js';
import type { SandboxClock } from './clock.js';
import type { Attempt, Delivery, DeliveryState, Resending } from './deliveries.js';
import type { SandboxEndpoints } from './endpoints.js';
import type { SandboxEvent, SandboxEventQuery } from './events.js';
import type { SandboxFaults } from './faults.js';
import type { FeedEntry } from './feed.js';
import type { Movement, MovementOperations } from './movements.js';
import type { Listening, ListenOptions } from './server.js';
import type { Account, LimitsInput, WalletInput } from './wallets.js';

/** Which deliveries or attempts to list. */
export interface DeliveryQuery {
  readonly eventId?: string | undefined;
  readonly state?: DeliveryState | undefined;
  /** @default all that are kept */
  readonly limit?: number | undefined;
}

/** What the sandbox can do, in this process and over HTTP. A refused call throws a `SandboxError`. */
export interface SandboxOperations extends MovementOperations {
  readonly clock: SandboxClock;
  readonly faults: SandboxFaults;
  readonly endpoints: SandboxEndpoints;
  readonly wallets: {
    create(input: WalletInput): Wallet;
    updateLimits(id: string, input: LimitsInput): Wallet;
    get(id: string): Account;
    list(): readonly Account[];
  };

  /** Fires an event of any type and delivers it. @param payload - an example of the type by default */
  emit(type: string, payload?: Readonly<Record<string, unknown>>): SandboxEvent;
  /** Every event as it is: no fault of the list applies. Newest first by default. */
  events(query?: SandboxEventQuery): readonly SandboxEvent[];
  /** Delivers an event to every endpoint again, whether it was delivered before or not. */
  redeliver(eventId: string): void;
  /**
   * Delivers the event of a delivery to its endpoint once more, now: one attempt, without faults. With `body`, that is
   * signed and sent instead of the event; with `url`, it is sent there. Other bytes or another URL are an attempt
   * alone: no delivery of the event.
   *
   * @throws {SandboxError} `ERR_SANDBOX_NOT_FOUND` when the delivery, its event or its endpoint is no longer kept;
   * `ERR_SANDBOX_INPUT` when the URL cannot be used.
   */
  resend(deliveryId: string, change?: Resending): Promise<Attempt>;
  /** Says whether the signature of an attempt is right, and what its answer says about the endpoint. */
  explain(attempt: Attempt): Promise<Verdict>;
  /** Pending deliveries first, then ended ones, the newest end first. */
  deliveries(query?: DeliveryQuery): readonly Delivery[];
  /** Oldest first; with a limit, the newest of them. */
  attempts(query?: Omit<DeliveryQuery, 'state'>): readonly Attempt[];
  /** Newest first. */
  movements(query?: { readonly limit?: number | undefined }): readonly Movement[];
  /**
   * Calls the listener with everything that happens, until the returned function is called. An error that it
   * throws is written to the console and changes nothing.
   */
  subscribe(listener: (entry: FeedEntry) => void): () => void;

  /** Makes the token valid again for `tokenExpiryMs`. Without this fault, nothing changes. */
  renewToken(): void;

  /** Resolves once no movement and no delivery is pending; moves a manual clock as far as needed. */
  settled(): Promise<void>;
  /** Restores the state at creation. The same calls then give the same ids and the same faults again. */
  reset(): void;
}

/** The service on your machine. */
export interface Sandbox extends SandboxOperations {
  readonly token: string;
  readonly secret: string;
  /** Pass it as the option `seed` to repeat the run. */
  readonly seed: number;
  /**
   * Answers a request as the service does, without a port and whatever its host is. To serve it on a port, call
   * `listen`, which refuses web sites.
   */
  fetch(request: Request): Promise<Response>;
  /** Listens on a port; 0 picks a free one. */
  listen(port: number, options?: ListenOptions): Promise<Listening>;
  /** Saves the state to the `stateFile`, if there is one. */
  save(): Promise<void>;
  /** Stops all deliveries, stops listening, and saves. */
  close(): Promise<void>;
}
