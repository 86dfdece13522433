import type { Wallet } from 'stablehooks/client';
import type { Finding } from '../explain/replies.js';
import type { SandboxClock } from './clock.js';
import type { Attempt, Delivery, DeliveryState, Resending } from './deliveries.js';
import type { SandboxEndpoints } from './endpoints.js';
import type { SandboxEvent, SandboxEventQuery } from './events.js';
import type { SandboxFaults } from './faults.js';
import type { FeedEntry } from './feed.js';
import type { Movement, MovementOperations } from './movements.js';
import type { Listening, ListenOptions } from './server.js';
import type { Account, LimitsInput, WalletInput } from './wallets.js';

/** The filter of a list of deliveries or attempts. */
export interface DeliveryQuery {
  readonly eventId?: string | undefined;
  readonly state?: DeliveryState | undefined;
  /** @default all that are kept */
  readonly limit?: number | undefined;
}

/** The operations of the sandbox, in this process and over HTTP. A refused call throws a `SandboxError`. */
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
  /** Lists the unchanged events, without the faults of the list. Newest first by default. */
  events(query?: SandboxEventQuery): readonly SandboxEvent[];
  /** Delivers an event to every endpoint again, even if it was delivered before. */
  redeliver(eventId: string): void;
  /**
   * Delivers the event of a delivery to its endpoint once more, now: one attempt, without faults. `body` is signed and sent
   * instead of the event; `url` replaces the URL. With other bytes or another URL, the attempt does not count as a delivery
   * of the event.
   *
   * @throws {SandboxError} `ERR_SANDBOX_NOT_FOUND` when the delivery, its event or its endpoint has been dropped;
   * `ERR_SANDBOX_INPUT` when the URL cannot be used.
   */
  resend(deliveryId: string, change?: Resending): Promise<Attempt>;
  /** Explains whether an attempt's signature is right, and what its answer shows about the endpoint. */
  explain(attempt: Attempt): Promise<Finding>;
  /** Pending deliveries first, then ended ones, the newest end first. */
  deliveries(query?: DeliveryQuery): readonly Delivery[];
  /** Oldest first; with a limit, the newest of them. */
  attempts(query?: Omit<DeliveryQuery, 'state'>): readonly Attempt[];
  /** Newest first. */
  movements(query?: { readonly limit?: number | undefined }): readonly Movement[];
  /**
   * Calls the listener with every change, until the returned function is called. An error of the listener is written to the
   * console and ignored.
   */
  subscribe(listener: (entry: FeedEntry) => void): () => void;

  /** Makes the token valid again for `tokenExpiryMs`. Without this fault, it has no effect. */
  renewToken(): void;

  /** Resolves once no movement and no delivery is pending; moves a manual clock as far as needed. */
  settled(): Promise<void>;
  /** Restores the state at creation. The same calls then produce the same ids and faults again. */
  reset(): void;
}

/** The service on your machine. */
export interface Sandbox extends SandboxOperations {
  readonly token: string;
  readonly secret: string;
  /** Pass it as the option `seed` to repeat the run. */
  readonly seed: number;
  /**
   * Answers a request as the service does, without a port and for any host. To serve it on a port, call `listen`, which
   * refuses web sites.
   */
  fetch(request: Request): Promise<Response>;
  /** Listens on a port; 0 picks a free one. */
  listen(port: number, options?: ListenOptions): Promise<Listening>;
  /** Stops all deliveries, and stops listening. */
  close(): Promise<void>;
}
