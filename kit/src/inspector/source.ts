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

/** The source of an inspector. It provides only the parts that it can show. */
export interface InspectorSource {
  /** The name of the source on the page, such as `sandbox` or `app.db`. It must not contain a password. */
  readonly name: string;
  readonly deliveries?: DeliveriesPart | undefined;
  /** The inbox, which also provides the coverage view. */
  readonly inbox?: InboxPart | undefined;
  /** The world of a sandbox. */
  readonly service?: SandboxOperations | undefined;
  /**
   * Calls the listener with each entry until you call the returned function. `isWatched` returns whether a page is
   * open. A source that polls can pause if no page is open.
   */
  subscribe(listener: (entry: StreamEntry) => void, isWatched: () => boolean): () => void;
}

export interface EventQuery extends EventFilter {
  readonly limit: number;
  /** The id of the last event of the previous page. */
  readonly after?: string | undefined;
}

/** The attempts at deliveries, and the events that were delivered. */
export interface DeliveriesPart {
  /** Returns the events, newest first. */
  events(query: EventQuery): Promise<EventPage>;
  counts(filter: EventFilter): Promise<EventCounts>;
  /** Returns the time of the source, in epoch ms. */
  now(): number;
  /** Returns the event and its attempts, oldest first, or `undefined` if no attempt is kept. */
  event(id: string): EventRow | undefined;
  /** Returns the attempt, or `undefined` if it is no longer kept. */
  find(id: string): Promise<AttemptDetail | undefined>;
  /** Sends the bytes of an attempt again, or sends different bytes instead. Resolves to the new attempt. */
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

/** The `--inbox` value in commands that users paste, unless the app provides another value. */
export const DEFAULT_FLAG = 'env:DATABASE_URL';

export interface InboxPart {
  readonly operations: InspectedInbox;
  /** Runs an event now and resolves to its outcome. Without this function, the page has no `run` action. */
  readonly run?: ((event: UnknownEvent) => Promise<string>) | undefined;
  /** The report of the last poll, if this process polls. */
  readonly lastReport?: (() => LastReport | undefined) | undefined;
  /** The `--inbox` value for this inbox in commands that users paste. @default 'env:DATABASE_URL' */
  readonly flag?: string | undefined;
}
