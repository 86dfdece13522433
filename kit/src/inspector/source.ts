import type { Inbox, InboxOperations, UnknownEvent } from 'stablehooks';
import type { PollReport } from 'stablehooks/catch-up';
import type { SandboxOperations } from '../sandbox/index.js';
import type {
  AttemptDetail,
  AttemptRow,
  EventCounts,
  EventFilter,
  EventPage,
  EventRow,
  StreamEntry,
} from './api.js';

/** The source of an inspector. It provides the parts that it can show. */
export interface InspectorSource {
  /** The name of the source on the page, such as `sandbox` or `app.db`. It must not contain a password. */
  readonly name: string;
  readonly deliveries?: DeliveriesPart | undefined;
  /** The inbox. It also provides the coverage view. */
  readonly inbox?: InboxPart | undefined;
  /** The world of a sandbox. */
  readonly service?: SandboxOperations | undefined;
  /**
   * Calls the listener with each event of the source until you call the returned function. A source that polls can
   * pause while no page is open.
   */
  subscribe(listener: (entry: StreamEntry) => void, isWatched: () => boolean): () => void;
}

export interface EventQuery extends EventFilter {
  readonly limit: number;
  /** The id of the last event of the previous page. */
  readonly after?: string | undefined;
}

/** Attempts at deliveries, and the events that they deliver. */
export interface DeliveriesPart {
  /** Newest first. */
  events(query: EventQuery): Promise<EventPage>;
  counts(filter: EventFilter): Promise<EventCounts>;
  /** The time of the source, in epoch ms. */
  now(): number;
  /** Returns the event and its attempts, oldest first, or `undefined` if no attempt is kept. */
  event(id: string): EventRow | undefined;
  /** Returns the attempt, or `undefined` if it is no longer kept. */
  find(id: string): Promise<AttemptDetail | undefined>;
  /** Sends the bytes of an attempt, or different bytes, once more. Resolves to the new attempt. */
  resend(
    id: string,
    change: { readonly url?: string | undefined; readonly body?: Uint8Array | undefined },
  ): Promise<AttemptRow>;
}

/** The methods of an inbox that the page calls. Every inbox of `stablehooks` has them. */
export type InspectedInbox = Omit<InboxOperations, 'importDone' | 'prune'> &
  Pick<Inbox<unknown>, 'claim' | 'fail' | 'readNote' | 'writeNote' | 'leaseNote'>;

/** The report of the last poll, and its time in epoch ms. */
export interface LastReport {
  readonly report: PollReport;
  readonly at: number;
}

/** How the command line opens an inbox, unless the app says it. */
export const DEFAULT_FLAG = 'env:DATABASE_URL';

export interface InboxPart {
  readonly operations: InspectedInbox;
  /** Runs an event now and resolves to its outcome. Without this function, the page has no `run` action. */
  readonly run?: ((event: UnknownEvent) => Promise<string>) | undefined;
  /** The report of the last poll, if this process polls. */
  readonly lastReport?: (() => LastReport | undefined) | undefined;
  /** The `--inbox` value for this inbox, used in commands to paste. @default 'env:DATABASE_URL' */
  readonly flag?: string | undefined;
}
