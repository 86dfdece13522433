import type { Inbox, InboxOperations, UnknownEvent } from 'stablehooks';
import type { PollReport } from 'stablehooks/catch-up';
import type {
  ActionInputs,
  AttemptDetail,
  AttemptFilter,
  AttemptPage,
  AttemptStats,
  ServiceReport,
  StreamEntry,
} from './api.js';

/** The source of an inspector. Each part provides one view of the page or two; a source has the parts that it can show. */
export interface InspectorSource {
  /** Its name on the page, such as `sandbox` or `app.db`. It must not contain a password. */
  readonly name: string;
  readonly deliveries?: DeliveriesPart | undefined;
  /** Provides the view of the coverage as well. */
  readonly inbox?: InboxPart | undefined;
  readonly service?: ServicePart | undefined;
  /**
   * Calls the listener with each event of the source until the returned function is called. A source that polls can pause
   * while no page is open.
   */
  subscribe(listener: (entry: StreamEntry) => void, isWatched: () => boolean): () => void;
}

/** One page of a list of attempts. */
export interface AttemptQuery extends AttemptFilter {
  readonly limit: number;
  readonly before?: string | undefined;
}

/** Attempts at deliveries. */
export interface DeliveriesPart {
  /** Newest first; `before` is the id of the last row of the previous page. */
  list(query: AttemptQuery): AttemptPage | Promise<AttemptPage>;
  stats(filter: AttemptFilter): AttemptStats | Promise<AttemptStats>;
  /** `undefined` when the attempt has been dropped. */
  find(id: string): Promise<AttemptDetail | undefined>;
  /** Sends the bytes of an attempt, or others, to its URL once more. Resolves to the id of the new attempt. */
  resend(
    id: string,
    change: { readonly url?: string | undefined; readonly body?: Uint8Array | undefined },
  ): Promise<string>;
}

/** The methods of an inbox that the page calls. Every inbox of `stablehooks` has them. */
export type InspectedInbox = Omit<InboxOperations, 'lastPoller' | 'discard' | 'importDone'> &
  Pick<Inbox<unknown>, 'acquirePoll' | 'savePoll'>;

/** The report of the last poll, and its time in epoch ms. */
export interface LastReport {
  readonly report: PollReport;
  readonly at: number;
}

/** An inbox. */
export interface InboxPart {
  readonly operations: InspectedInbox;
  /** Runs an event now, and resolves to its outcome. Without it, the page has no action `run`. */
  readonly run?: ((event: UnknownEvent) => Promise<string>) | undefined;
  /** The report of the last poll, if this process polls. */
  readonly lastReport?: (() => LastReport | undefined) | undefined;
  /** Rewords messages of a poller, which name its options, for people who set them otherwise. @default unchanged */
  readonly toAdvice?: ((message: string) => string) | undefined;
}

/** The world of a sandbox. */
export interface ServicePart {
  report(): ServiceReport;
  /** Fires an event of any type, and returns its id. */
  fire(input: ActionInputs['fire']): string;
  setFaults(change: ActionInputs['set-faults']): void;
  clearFaults(): void;
  advanceClock(ms: number): Promise<void>;
}
