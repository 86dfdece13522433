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

/** The source of an inspector's data. The page shows the parts that the source provides. */
export interface InspectorSource {
  /** The name that the page shows for the source, such as `sandbox` or `app.db`. It must not contain a password. */
  readonly name: string;
  readonly deliveries?: DeliveriesPart | undefined;
  /** The inbox, which also provides the data of the coverage view. */
  readonly inbox?: InboxPart | undefined;
  /** The sandbox that the sandbox view shows and changes. */
  readonly service?: SandboxOperations | undefined;
  /**
   * Calls the listener with each new entry until you call the returned function. `isWatched` returns whether a page is
   * open, so that a source that polls can pause while no page is open.
   */
  subscribe(listener: (entry: StreamEntry) => void, isWatched: () => boolean): () => void;
}

export interface EventQuery extends EventFilter {
  readonly limit: number;
  /** The id of the last event of the previous page. */
  readonly after?: string | undefined;
}

/** The delivery attempts, and the events to which they belong. */
export interface DeliveriesPart {
  /** Returns the events, newest first. */
  events(query: EventQuery): Promise<EventPage>;
  counts(filter: EventFilter): Promise<EventCounts>;
  /** Returns the current time on the clock of the source, in epoch ms. */
  now(): number;
  /** Returns the event and its attempts, oldest first, or `undefined` if no attempt is available any more. */
  event(id: string): EventRow | undefined;
  /** Resolves to the attempt, or to `undefined` if the attempt is no longer available. */
  find(id: string): Promise<AttemptDetail | undefined>;
  /** Resends the bytes of an attempt, or sends different bytes instead. Resolves to the new attempt. */
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

export const DEFAULT_FLAG = 'env:DATABASE_URL';

export interface InboxPart {
  readonly operations: InspectedInbox;
  /** Runs an event now and resolves to its outcome. Without this function, the page does not offer the `run` action. */
  readonly run?: ((event: UnknownEvent) => Promise<string>) | undefined;
  /** The report of the last poll, if this process polls. */
  readonly lastReport?: (() => LastReport | undefined) | undefined;
  /** The `--inbox` value that the page uses for this inbox in commands to copy. @default 'env:DATABASE_URL' */
  readonly flag?: string | undefined;
}
