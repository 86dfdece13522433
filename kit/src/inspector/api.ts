import type { InboxState, InboxStep } from 'stablehooks';
import type { Gap } from 'stablehooks/catch-up';
import type { ErrorGroups } from '../explain/error-groups.js';
import type { Finding } from '../explain/replies.js';
import type { Endpoint, Faults, FaultsInput, Movement } from '../sandbox/index.js';

/** The views of the page. Each source provides some of them. */
export type View = 'overview' | 'events' | 'coverage' | 'sandbox';

export interface SelectedFilter extends EventFilter {
  readonly ids?: readonly string[] | undefined;
  /**
   * Which events to exclude. `permanent` excludes events whose handler said that a retry cannot help. `expired`
   * excludes events with an attempt that recorded no result.
   */
  readonly except?: readonly ('permanent' | 'expired')[] | undefined;
}

/**
 * The events in an inbox to which an action applies. With `dryRun`, the action changes nothing and only returns what it
 * would do.
 */
export interface Selected {
  readonly filter: SelectedFilter;
  readonly dryRun?: boolean | undefined;
}

/** The inputs of the actions. To run an action, send its input as JSON with `POST api/actions/<name>`. */
export interface ActionInputs {
  /** Makes one more attempt at a delivery. `body` (base64) replaces the original bytes, and `url` replaces the endpoint. */
  readonly resend: {
    readonly id: string;
    readonly url?: string | undefined;
    readonly body?: string | undefined;
  };
  /** Requeues at most 10,000 dead or failed events. Each event's history records who requeued the event and why. */
  readonly requeue: Selected & { readonly by?: string | undefined; readonly reason?: string | undefined };
  /** Runs at most 100 events now, one after another. */
  readonly run: Selected;
  /** Discards at most 10,000 events that must not run. */
  readonly discard: Selected & { readonly by: string; readonly reason: string };
  /**
   * Acknowledges a gap up to `until`, which is the end of the gap that the person saw. If a later poll makes the gap
   * longer, the new part stays open.
   */
  readonly 'acknowledge-gap': {
    readonly id: string;
    readonly until: string;
    readonly by: string;
    readonly reason: string;
  };
  /** Fires an event. The default payload is the example for the type. */
  readonly fire: { readonly type: string; readonly payload?: Readonly<Record<string, unknown>> | undefined };
  readonly 'set-faults': FaultsInput;
  readonly 'clear-faults': Readonly<Record<string, never>>;
  readonly 'advance-clock': { readonly ms: number };
  readonly move: { readonly kind: 'accept' | 'transfer' | 'redeem'; readonly amount: string };
  readonly 'add-endpoint': { readonly url: string };
  readonly 'remove-endpoint': { readonly id: string };
}

export type ActionName = keyof ActionInputs;

/** The result of an action on events, or of a dry run of the action. */
export interface SelectedResult {
  readonly matched: number;
  /** How many of the matching events are in a state in which the action can change them. */
  readonly eligible: number;
  /** How many events the action changed or ran. This is 0 after a dry run. */
  readonly changed: number;
  /**
   * The number of runs with each outcome, such as `{ handled: 3 }`. `error` counts runs that threw an error.
   * `elsewhere` counts the last run if the event ran in a receiver with a different inbox.
   */
  readonly outcomes: Readonly<Record<string, number>>;
  /** The ids of the events that a dry run found. To change only these events, pass these ids in the filter of the action. */
  readonly ids: readonly string[];
}

export interface ActionResults {
  readonly resend: AttemptRow;
  readonly requeue: SelectedResult;
  readonly run: SelectedResult;
  readonly discard: SelectedResult;
  readonly 'acknowledge-gap': { readonly done: boolean };
  readonly fire: { readonly id: string };
  readonly 'set-faults': Faults;
  readonly 'clear-faults': Faults;
  readonly 'advance-clock': { readonly now: string };
  readonly move: { readonly id: string };
  readonly 'add-endpoint': { readonly id: string };
  readonly 'remove-endpoint': Readonly<Record<string, never>>;
}

export interface Problem {
  readonly message: string;
}

/** `GET api/session` */
export interface Session {
  readonly name: string;
  readonly views: readonly View[];
  readonly actions: readonly ActionName[];
  /** Each action must send this value as the `x-inspector-token` header. */
  readonly actionToken: string;
  /** The current position of the stream. Pass it as `?after` so that you miss nothing that happens after this response. */
  readonly position: string;
}

export const ATTEMPT_KINDS = [
  'accepted',
  'wrongly-accepted',
  'without-effect',
  'refused',
  'failed',
  'unanswered',
] as const;

/**
 * How an endpoint responded to an attempt.
 *
 * - `accepted`: a 2xx, unless the response reports that no handler ran.
 *
 * - `wrongly-accepted`: a 2xx, although a sandbox fault made the signature wrong.
 *
 * - `without-effect`: a 2xx with `dead`, `ignored` or `parked`.
 *
 * - `failed`: a 5xx, 408, 409, 425 or 429. A later attempt can succeed.
 *
 * - `refused`: every other status.
 *
 * - `unanswered`: no response.
 */
export type AttemptKind = (typeof ATTEMPT_KINDS)[number];

/** One attempt at a delivery. Times are ISO 8601. */
export interface AttemptRow {
  /** The id of the attempt, which is unique within the source. */
  readonly id: string;
  readonly at: string;
  readonly eventId: string;
  readonly type: string;
  /** Whether the bytes that were sent differ from the event. @default false */
  readonly edited?: boolean | undefined;
  /** Whether a person sent the attempt to a URL other than the endpoint's. @default false */
  readonly elsewhere?: boolean | undefined;
  readonly endpoint: string;
  /** The number of the attempt within the delivery, starting at 1. */
  readonly attempt: number;
  readonly kind: AttemptKind;
  readonly status: number | null;
  /** The outcome or code in the response, or the reason why there was no response. */
  readonly outcome: string | null;
  readonly durationMs: number;
  readonly faults: readonly string[];
}

/** How the page shows a state, an attempt or a check. */
export type Tone = 'good' | 'bad' | 'doubtful' | 'neutral';

/** The state of an event in an inbox or, if there is no inbox, the kind of its attempts. */
export type EventState = InboxState | AttemptKind;

/** An attempt to deliver or run an event, or something that a person did with the event. Times are epoch ms. */
export interface AttemptLine {
  /** The id of the attempt. `null` if an inbox ran the event, because such an attempt has no bytes. */
  readonly id: string | null;
  readonly at: number;
  /** A title, such as `Attempt 2` or `Discarded by Ada`. */
  readonly name: string;
  readonly tone: Tone;
  readonly result: string;
  readonly endpoint: string | null;
  readonly durationMs: number;
  readonly faults: readonly string[];
}

/** One event. Times are epoch ms. */
export interface EventRow {
  readonly id: string;
  readonly type: string;
  readonly state: EventState;
  readonly tone: Tone;
  /** The outcome or current state of the event, such as `Accepted on attempt 5`. */
  readonly verdict: string;
  readonly attempts: number;
  /** When the event was received (in an inbox) or first attempted (without an inbox). */
  readonly at: number;
  /** When the event will run again or, while it is leased, when the lease ends. */
  readonly dueAt: number | null;
  readonly key: string | null;
  /** At most ten of the newest completed attempts, oldest first. */
  readonly history: readonly AttemptLine[];
}

/**
 * A filter for events. An event must meet every condition. `id` matches part of an id, and `text` matches part of a
 * body. Both ignore case.
 */
export interface EventFilter {
  readonly state?: EventState | undefined;
  readonly type?: string | undefined;
  /** Only events last changed (in an inbox) or first attempted (without an inbox) at or after this time, in epoch ms. */
  readonly since?: number | undefined;
  /** Only events last changed or first attempted before this time, in epoch ms. */
  readonly until?: number | undefined;
  readonly error?: string | undefined;
  /** Only events in the group with this error, in which `…` stands for each variable part. */
  readonly group?: string | undefined;
  readonly key?: string | undefined;
  /** Only events with at least this many attempts. */
  readonly attempts?: number | undefined;
  /** Only events whose payload contains this value, such as `transfer_id=trf_1`. */
  readonly payload?: string | undefined;
  readonly id?: string | undefined;
  readonly text?: string | undefined;
}

/** `GET api/events?limit&after` with an {@link EventFilter}. The newest events come first. */
export interface EventPage {
  readonly rows: readonly EventRow[];
  /** The value to pass as `after` to get the next page. `null` on the last page. */
  readonly next: string | null;
  /** How many events were read to find `id` or `text`, which an inbox cannot look up. `null` if none had to be read. */
  readonly searched: number | null;
}

/** `GET api/events/counts` with an {@link EventFilter}. The filter's `state` does not affect `states`. */
export interface EventCounts {
  /** `null` if the events in an inbox would have to be searched for `id` or `text`. */
  readonly states: readonly { readonly state: EventState; readonly count: number }[] | null;
  readonly types: readonly string[];
  /**
   * How many events are missing from the list, either because they have not been attempted yet or because their
   * attempts are no longer available. With an inbox, every count is 0.
   */
  readonly dropped: DroppedEvents;
}

export interface DroppedEvents {
  /** Events that will not be attempted again, although at least one endpoint never accepted them with a 2xx. */
  readonly exhausted: number;
  /** Events that every endpoint accepted with a 2xx. */
  readonly delivered: number;
  readonly unattempted: number;
}

export const NONE_DROPPED: DroppedEvents = { exhausted: 0, delivered: 0, unattempted: 0 };

/** `GET api/events/:id` */
export interface EventDetail extends EventRow {
  readonly explanation: Finding;
  /** How the event first arrived. `null` without an inbox. */
  readonly origin: string | null;
  readonly deliveries: readonly AttemptLine[];
  /** Only `stored` means that `GET api/events/:id/body` returns the JSON of the event. */
  readonly body: 'stored' | 'pruned' | 'none';
  /** `null` if the text is long or missing. */
  readonly text: string | null;
  /** `null` without an inbox. */
  readonly command: string | null;
  readonly steps: readonly StepRow[];
  /** `null` without an inbox. */
  readonly updatedAt: number | null;
}

/** `GET api/find?key`: the event with this id, or else the movement with this ordering key or payload value. */
export interface Found {
  readonly event: string | null;
  /** `null` if an event has this id, or without an inbox. */
  readonly movement: MovementReport | null;
}

export interface MovementReport {
  readonly rows: readonly MovementRow[];
  readonly unread: number;
  readonly proof: string;
  readonly isProven: boolean;
}

export interface MovementRow extends EventRow {
  readonly createdAt: number;
  readonly origin: string;
  /** `null` if the text is long or missing. */
  readonly text: string | null;
}

export interface StepRow extends Omit<InboxStep, 'result'> {
  /** Without a result, the effect of the step is unknown. */
  readonly hasResult: boolean;
}

export interface OverviewCheck {
  readonly name: string;
  /** `doubtful` means that the inbox is healthy, but that someone should look at the check. */
  readonly tone: Tone;
  readonly message: string;
  readonly count: number | null;
  /** When the problem that needs a person began, in epoch ms. `null` if unknown. */
  readonly since: number | null;
  readonly causes: readonly string[];
}

export interface FlowNumber {
  readonly name: string;
  readonly count: number;
  readonly tone: Tone;
  readonly note: string | null;
}

/** `GET api/overview` */
export interface OverviewReport {
  readonly tone: Tone;
  readonly verdict: string;
  readonly checks: readonly OverviewCheck[];
  readonly flow: readonly FlowNumber[];
  /** `null` without an inbox. */
  readonly errors: ErrorGroups | null;
  /** In epoch ms. */
  readonly at: number;
}

/** A request or a response, byte for byte. */
export interface Message {
  readonly headers: Readonly<Record<string, string>>;
  /** The body in base64. */
  readonly body: string;
}

/** `GET api/attempts/:id` */
export interface AttemptDetail extends AttemptRow {
  readonly request: Message & { readonly method: string; readonly url: string };
  readonly response:
    | (Message & {
        readonly status: number /** Whether only the start of the body was kept. */;
        readonly cut: boolean;
      })
    | null;
  readonly error: string | null;
  readonly verdict: Finding;
}

export interface GapRow extends Gap {
  readonly id: string;
  readonly text: string;
  readonly command: string;
}

/** `GET api/coverage`. Times are epoch ms. */
export interface CoverageReport {
  readonly since: number | null;
  /** Every event created up to this time is in the inbox, except in the gaps. `null` before the first poll. */
  readonly watermark: number | null;
  readonly gaps: readonly GapRow[];
  readonly types: readonly string[];
  /** `null` before the first poll or if this source does not poll. */
  readonly lastPoll: {
    readonly at: number;
    readonly diagnosis: string;
    readonly problems: readonly string[];
  } | null;
}

export const MAX_MOVEMENTS = 200;

/** `GET api/sandbox` */
export interface ServiceReport {
  readonly movements: readonly Movement[];
  readonly endpoints: readonly Endpoint[];
  readonly faults: Faults;
  /** The sandbox's clock. `now` is an ISO 8601 time. */
  readonly clock: { readonly mode: string; readonly now: string };
  /** The example payload for each type, which fills the form that fires an event. */
  readonly examples: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

/** `GET api/stream`: server-sent events. The name of each event is its `kind`. */
export type StreamEntry =
  /** The data of a view has changed, so the page must request it again. */
  | { readonly kind: 'changed'; readonly view: View }
  /** The source has been unreadable since `since` (ISO 8601). */
  | { readonly kind: 'lost'; readonly since: string; readonly why: string }
  | { readonly kind: 'recovered' };
