import type { InboxOperations, UnknownEvent } from 'stablehooks';
import type { Account, Endpoint, Faults, FaultsInput, Movement } from '../sandbox/index.js';
import type { AttemptDetail, AttemptFilter, AttemptPage } from './api.js';
import type { StreamEntry } from './stream.js';

/** What an inspector shows. Each part is one view of the page; a source has those that it can show. */
export interface InspectorSource {
  /** What the page is called, such as `sandbox` or `app.db`. Never a URL with a password. */
  readonly name: string;
  readonly deliveries?: DeliveriesPart | undefined;
  readonly inbox?: InboxPart | undefined;
  readonly service?: ServicePart | undefined;
  /** Calls the listener with what happens, until the returned function is called. */
  subscribe(listener: (entry: StreamEntry) => void): () => void;
}

/** Attempts at deliveries. */
export interface DeliveriesPart {
  /** The newest first; `before` is the id of the last row of the page before. */
  list(query: AttemptFilter & { readonly limit: number; readonly before?: string | undefined }): AttemptPage;
  /** `undefined` when it is no longer kept. */
  find(id: string): Promise<AttemptDetail | undefined>;
  /** Makes one more attempt, and resolves to its id. */
  resend(
    id: string,
    change: { readonly url?: string | undefined; readonly body?: string | undefined },
  ): Promise<string>;
}

/** An inbox. */
export interface InboxPart {
  readonly operations: InboxOperations;
  /** Runs an event now. Without it, the page makes the event due, and the app's redrive runs it. */
  readonly run?: ((event: UnknownEvent) => Promise<string>) | undefined;
}

/** The world of a sandbox. */
export interface ServicePart {
  wallets(): readonly Account[];
  movements(): readonly Movement[];
  endpoints(): readonly Endpoint[];
  readonly faults: { get(): Faults; set(change: FaultsInput): Faults };
  readonly clock: { readonly mode: string; now(): number; advance(ms: number): Promise<void> };
  /** Fires an event of any type, and gives its id. */
  fire(type: string, payload: Readonly<Record<string, unknown>> | undefined): string;
  /** Example payloads by type, for the form. */
  readonly examples: Readonly<Record<string, unknown>>;
}
