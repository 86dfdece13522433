/** What the page asks for and gets: types only, which the server and the page share. */
import type { InboxAttempt, InboxCount, InboxState } from 'stablehooks';
import type { Verdict } from '../explain/verdict.js';

/** The views of the page. A source has some of them. */
export type View = 'deliveries' | 'inbox' | 'coverage' | 'service';

/** What the page can do, beside looking. */
export type ActionName =
  | 'resend'
  | 'requeue'
  | 'run'
  | 'prune'
  | 'acknowledge-gap'
  | 'fire'
  | 'set-faults'
  | 'advance-clock';

/** `GET api/session` */
export interface Session {
  /** What is inspected, such as `sandbox` or `app.db`. */
  readonly name: string;
  readonly views: readonly View[];
  /** The actions that are allowed. */
  readonly actions: readonly ActionName[];
  /** To be sent as the header `x-inspector-token` with each action. */
  readonly actionToken: string;
}

/**
 * How an attempt ended.
 *
 * - `accepted`: 2xx, and no reply says that nothing ran.
 * - `without-effect`: 2xx with `dead`, `ignored` or `parked`.
 * - `refused`: 4xx, or another status that ends the attempts.
 * - `failed`: 5xx, 408, 409, 425, 429: the sender tries again.
 * - `unanswered`: no answer.
 */
export type AttemptKind = 'accepted' | 'without-effect' | 'refused' | 'failed' | 'unanswered';

/** One attempt in the list of deliveries. Times are ISO 8601. */
export interface AttemptRow {
  /** Unique in this source. */
  readonly id: string;
  readonly at: string;
  readonly eventId: string;
  readonly type: string;
  readonly endpoint: string;
  /** Which attempt of the delivery, from 1. */
  readonly attempt: number;
  readonly kind: AttemptKind;
  readonly status: number | null;
  /** The outcome or the code of the reply, or why there is none. */
  readonly outcome: string | null;
  readonly durationMs: number;
  readonly faults: readonly string[];
}

/** `GET api/deliveries`: the newest first. */
export interface AttemptPage {
  readonly rows: readonly AttemptRow[];
  /** To be passed as `before` for the next page; `null` at the end. */
  readonly next: string | null;
}

/** What `GET api/deliveries` selects by; `text` is looked for in the body and in the reply. */
export interface AttemptFilter {
  readonly type?: string | undefined;
  readonly kind?: AttemptKind | undefined;
  readonly id?: string | undefined;
  readonly text?: string | undefined;
}

/** A request or a response, byte for byte. */
export interface Message {
  readonly headers: Readonly<Record<string, string>>;
  /** base64 */
  readonly body: string;
}

/** `GET api/deliveries/:id` */
export interface AttemptDetail extends AttemptRow {
  readonly request: Message & { readonly method: string; readonly url: string };
  readonly response: (Message & { readonly status: number; /** Whether only its start was kept. */ readonly cut: boolean }) | null;
  readonly error: string | null;
  readonly verdict: Verdict;
  /** The name of the header that holds the signature. */
  readonly signatureHeader: string;
}

/** `GET api/inbox/counts` */
export type InboxCounts = readonly InboxCount[];

/** One event in the inbox, without its payload. Times are epoch ms. */
export interface InboxRow {
  readonly id: string;
  readonly type: string;
  readonly state: InboxState;
  readonly attempts: number;
  readonly origin: string;
  readonly receivedAt: number;
  readonly updatedAt: number;
  readonly dueAt: number | null;
  readonly lastError: string | null;
}

/** `GET api/inbox/events?state&order&after` */
export interface InboxPage {
  readonly rows: readonly InboxRow[];
  readonly next: string | null;
}

/** `GET api/inbox/events/:id` */
export interface InboxDetail extends InboxRow {
  readonly history: readonly InboxAttempt[];
  /** The JSON of the event with `?payload=1`; `null` without it, and once the event is pruned. */
  readonly json: string | null;
  readonly pruned: boolean;
}
