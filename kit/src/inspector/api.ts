/** The requests and answers of the page, shared with the server. */
import type { InboxCount, InboxRecord, InboxState } from 'stablehooks';
import type { Gap } from 'stablehooks/catch-up';
import type { Account, Endpoint, Faults, FaultsInput, Movement } from '../sandbox/index.js';

/** The views of the page. A source has some of them. */
export type View = 'deliveries' | 'inbox' | 'coverage' | 'service';

/** The input of each action: `POST api/actions/<name>` with this as JSON. */
export interface ActionInputs {
  /** Makes one more attempt at a delivery; `body` (base64) replaces its bytes, `url` its endpoint. */
  readonly resend: {
    readonly id: string;
    readonly url?: string | undefined;
    readonly body?: string | undefined;
  };
  /** Makes a dead or failed event due now. */
  readonly requeue: { readonly id: string };
  /** Runs an event now. */
  readonly run: { readonly id: string };
  /** Removes the JSON of events that have been done for so long. */
  readonly prune: { readonly olderThanMs: number };
  readonly 'acknowledge-gap': { readonly id: string; readonly by: string; readonly reason: string };
  /** Fires an event; an example payload of the type by default. */
  readonly fire: { readonly type: string; readonly payload?: Readonly<Record<string, unknown>> | undefined };
  readonly 'set-faults': FaultsInput;
  readonly 'clear-faults': Readonly<Record<string, never>>;
  readonly 'advance-clock': { readonly ms: number };
}

export type ActionName = keyof ActionInputs;

/** The answer to each action. */
export interface ActionResults {
  /** The id of the new attempt. */
  readonly resend: { readonly id: string };
  readonly requeue: Readonly<Record<string, never>>;
  /** The outcome, such as `handled`. */
  readonly run: { readonly outcome: string };
  readonly prune: { readonly pruned: number };
  readonly 'acknowledge-gap': { readonly done: boolean };
  /** The id of the event. */
  readonly fire: { readonly id: string };
  readonly 'set-faults': Faults;
  readonly 'clear-faults': Faults;
  readonly 'advance-clock': { readonly now: string };
}

/** Every refused or failed request. */
export interface Problem {
  readonly message: string;
}

/** `GET api/session` */
export interface Session {
  /** The inspected sandbox or inbox, such as `sandbox` or `app.db`. */
  readonly name: string;
  readonly views: readonly View[];
  /** The actions that are allowed. */
  readonly actions: readonly ActionName[];
  /** To be sent as the header `x-inspector-token` with each action. */
  readonly actionToken: string;
  /** The current position of the stream. As `?after`, it misses nothing that happens after this answer. */
  readonly position: string;
}

/** Every {@link AttemptKind}. */
export const ATTEMPT_KINDS = [
  'accepted',
  'wrongly-accepted',
  'without-effect',
  'refused',
  'failed',
  'unanswered',
] as const;

/**
 * How an endpoint answered an attempt.
 *
 * - `accepted`: 2xx, without a report that nothing ran.
 * - `wrongly-accepted`: 2xx, although a fault of the sandbox made the signature wrong.
 * - `without-effect`: 2xx with `dead`, `ignored` or `parked`.
 * - `failed`: 5xx, 408, 409, 425 or 429: a later attempt can succeed.
 * - `refused`: every other status.
 * - `unanswered`: no answer.
 */
export type AttemptKind = (typeof ATTEMPT_KINDS)[number];

/** One attempt in the list of deliveries. Times are ISO 8601. */
export interface AttemptRow {
  /** Unique in this source. */
  readonly id: string;
  readonly at: string;
  readonly eventId: string;
  readonly type: string;
  /** Whether the sent bytes differ from those of the event. @default false */
  readonly edited?: boolean | undefined;
  readonly endpoint: string;
  /** Which attempt of the delivery, from 1. */
  readonly attempt: number;
  readonly kind: AttemptKind;
  readonly status: number | null;
  /** The outcome or the code of the reply, or the reason why there was none. */
  readonly outcome: string | null;
  readonly durationMs: number;
  readonly faults: readonly string[];
}

/** `GET api/deliveries?limit&before` with an {@link AttemptFilter}: newest first. */
export interface AttemptPage {
  readonly rows: readonly AttemptRow[];
  /** Pass it as `before` for the next page; `null` at the end. */
  readonly next: string | null;
}

/** The filter of attempts. `id` is a part of an id of an event or attempt, `text` of a body, in any case. */
export interface AttemptFilter {
  readonly type?: string | undefined;
  readonly kind?: AttemptKind | undefined;
  readonly id?: string | undefined;
  readonly text?: string | undefined;
}

/** `GET api/deliveries/stats` with an {@link AttemptFilter}: counts of all attempts that are kept, for the charts. */
export interface AttemptStats {
  /** Outcomes over time: the start of the first bucket in epoch ms, the width of each, and the counts by kind. */
  readonly from: number;
  readonly stepMs: number;
  readonly kinds: Readonly<Record<AttemptKind, readonly number[]>>;
  /** How many attempts took at most `boundsMs[i]` and more than the bound before; the last count has no bound. */
  readonly latency: { readonly boundsMs: readonly number[]; readonly counts: readonly number[] };
  readonly total: number;
  /** The types that occur, for the filter. */
  readonly types: readonly string[];
}

/** A request or a response, byte for byte. */
export interface Message {
  readonly headers: Readonly<Record<string, string>>;
  /** base64 */
  readonly body: string;
}

/** The diagnosis of an attempt from its bytes, signature and reply, in sentences. */
export interface AttemptVerdict {
  readonly what: string;
  /** The fix; `null` when nothing is wrong. */
  readonly fix: string | null;
}

/** `GET api/deliveries/:id` */
export interface AttemptDetail extends AttemptRow {
  readonly request: Message & { readonly method: string; readonly url: string };
  readonly response:
    | (Message & { readonly status: number /** Whether only its start was kept. */; readonly cut: boolean })
    | null;
  readonly error: string | null;
  readonly verdict: AttemptVerdict;
  /** The name of the signature header. */
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
  /** The ordering key, or `null`. */
  readonly key: string | null;
  readonly receivedAt: number;
  readonly updatedAt: number;
  readonly dueAt: number | null;
  readonly lastError: string | null;
}

/** `GET api/inbox/events?state&order&limit&after` */
export interface InboxPage {
  readonly rows: readonly InboxRow[];
  /** Pass it as `after` for the next page; `null` at the end. */
  readonly next: string | null;
}

/** `GET api/inbox/events/:id`, and with `?payload=1` the JSON of the event. */
export interface InboxDetail extends InboxRow {
  readonly history: InboxRecord['history'];
  /** The trace context that it was first recorded with, or `null`. */
  readonly traceparent: string | null;
  /** `null` unless it was requested, and once the event is pruned. */
  readonly json: string | null;
  readonly pruned: boolean;
}

/** A gap, with an id for the action and its sentence. */
export interface GapRow extends Gap {
  readonly id: string;
  readonly text: string;
}

/**
 * `GET api/coverage`. `POST api/coverage` with the header of actions begins to draw the picture again, and has the same
 * answer. Times are epoch ms.
 */
export interface CoverageReport {
  readonly since: number | null;
  /** Every event created up to here is in the inbox, except in the gaps; `null` before the first poll. */
  readonly watermark: number | null;
  readonly gaps: readonly GapRow[];
  /** The result of the last poll, in sentences; `null` if this source does not poll, or before the first poll. */
  readonly lastPoll: {
    readonly at: number;
    readonly diagnosis: string;
    readonly problems: readonly string[];
  } | null;
  /**
   * The picture at `api/coverage.svg`. It is drawn from all events, which takes seconds in a large inbox. `read` of
   * `total` events is the progress; `at` is when the inbox was read.
   */
  readonly picture:
    | { readonly state: 'none' }
    | { readonly state: 'drawing'; readonly read: number; readonly total: number }
    | { readonly state: 'failed'; readonly why: string }
    | { readonly state: 'ready'; readonly at: number };
}

/** `GET api/service` */
export interface ServiceReport {
  readonly wallets: readonly Account[];
  readonly movements: readonly Movement[];
  readonly endpoints: readonly Endpoint[];
  readonly faults: Faults;
  /** `now` is ISO 8601. */
  readonly clock: { readonly mode: string; readonly now: string };
  /** An example payload of each type, for the form. */
  readonly examples: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

/** `GET api/stream`: server-sent events, each with its `kind` as the event's name. */
export type StreamEntry =
  /** An attempt was made. */
  | { readonly kind: 'attempt'; readonly row: AttemptRow }
  /** The data of a view has changed, and the page requests it again. */
  | { readonly kind: 'changed'; readonly view: View }
  /** The source has been unreadable since `since` (ISO 8601). */
  | { readonly kind: 'lost'; readonly since: string; readonly why: string }
  | { readonly kind: 'recovered' };
