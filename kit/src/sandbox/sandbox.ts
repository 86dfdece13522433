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

/** Selects which deliveries or attempts to list. */
export interface DeliveryQuery {
  readonly eventId?: string | undefined;
  readonly state?: DeliveryState | undefined;
  /** @default every kept delivery or attempt */
  readonly limit?: number | undefined;
}

/** The operations of a sandbox, in this process and over HTTP. A rejected operation throws a `SandboxError`. */
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

  /** Fires an event of any type and delivers it. @param payload - the payload. By default, an example for the type. */
  emit(type: string, payload?: Readonly<Record<string, unknown>>): SandboxEvent;
  /** Lists the events, newest first by default. The faults that change the service's list have no effect here. */
  events(query?: SandboxEventQuery): readonly SandboxEvent[];
  /** Delivers an event to every endpoint again, even if the event was delivered before. */
  redeliver(eventId: string): void;
  /**
   * Immediately sends the event of a delivery to the same endpoint again, in a single attempt without faults. If you
   * pass `body`, the sandbox signs and sends that body instead of the event. If you pass `url`, the sandbox sends the
   * request to that URL instead of the endpoint. If the bytes or the URL differ from the original, the attempt does not
   * count as a delivery of the event.
   *
   * @throws {SandboxError} `ERR_SANDBOX_NOT_FOUND` if the delivery, its event or its endpoint has been dropped;
   * `ERR_SANDBOX_INPUT` if the URL cannot be used.
   */
  resend(deliveryId: string, change?: Resending): Promise<Attempt>;
  /** Tells whether the signature of an attempt is correct, and what the response shows about the endpoint. */
  explain(attempt: Attempt): Promise<Finding>;
  /** Lists the pending deliveries, newest first, and then the ended deliveries, most recently ended first. */
  deliveries(query?: DeliveryQuery): readonly Delivery[];
  /** Lists attempts, oldest first. If you set a limit, only the newest attempts are listed. */
  attempts(query?: Omit<DeliveryQuery, 'state'>): readonly Attempt[];
  /** Lists movements, newest first. */
  movements(query?: { readonly limit?: number | undefined }): readonly Movement[];
  /**
   * Calls the listener with every change, until you call the returned function. If the listener throws, the error is
   * written to the console and has no other effect.
   */
  subscribe(listener: (entry: FeedEntry) => void): () => void;

  /**
   * Makes the token valid for another `tokenExpiryMs` milliseconds. Has no effect on the token unless that fault is
   * set.
   */
  renewToken(): void;

  /** Resolves when no movement or delivery is pending. Advances a manual clock as far as necessary. */
  settled(): Promise<void>;
  /** Restores the initial state. After that, the same calls produce the same ids and faults again. */
  reset(): void;
}

/** A simulated service on your machine. */
export interface Sandbox extends SandboxOperations {
  readonly token: string;
  readonly secret: string;
  /** The seed of this run. Pass it as the `seed` option to repeat the run. */
  readonly seed: number;
  /**
   * Responds to a request as the service would. This needs no port, and the request can be for any host. To serve the
   * sandbox on a port, call `listen`. The port rejects requests from web sites.
   */
  fetch(request: Request): Promise<Response>;
  /** Listens on a port. If `port` is 0, the system picks a free port. */
  listen(port: number, options?: ListenOptions): Promise<Listening>;
  /** Stops all deliveries, and stops listening. */
  close(): Promise<void>;
}
