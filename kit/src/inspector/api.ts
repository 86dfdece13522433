/** The requests and responses of the page, shared with the server. */
import type { InboxState, InboxStep } from 'stablehooks';
import type { Gap } from 'stablehooks/catch-up';
import type { ErrorGroups } from '../explain/error-groups.js';
import type { Finding } from '../explain/replies.js';
import type { Endpoint, Faults, FaultsInput, Movement } from '../sandbox/index.js';

/** The views of the page. A source provides some of them. */
export type View = 'overview' | 'events' | 'coverage' | 'sandbox';

export interface SelectedFilter extends EventFilter {
  readonly ids?: readonly string[] | undefined;
  /**
   * Events to exclude. `permanent` excludes events for which the handler said that a retry cannot help. `expired`
   * excludes events with an attempt that recorded no result.
   */
  readonly except?: readonly ('permanent' | 'expired')[] | undefined;
}

/**
 * The events in an inbox to which an action applies. With `dryRun`, the action changes nothing, but returns what it
 * would do.
 */
export interface Selected {
  readonly filter: SelectedFilter;
  readonly dryRun?: boolean | undefined;
}

/** The inputs of the actions. Send the input of an action as JSON with `POST api/actions/<name>`. */
export interface ActionInputs {
  /** Makes one more attempt at a delivery. `body` (base64) replaces the delivered bytes, and `url` replaces the endpoint. */
  readonly resend: {
    readonly id: string;
    readonly url?: string | undefined;
    readonly body?: string | undefined;
  };
  /** Makes at most 10,000 dead or failed events due now. The history of each event records who requeued it and why. */
  readonly requeue: Selected & { readonly by?: string | undefined; readonly reason?: string | undefined };
  /** Runs at most 100 events now, one after the other. */
  readonly run: Selected;
  /** Discards at most 10,000 events that must not run. */
  readonly discard: Selected & { readonly by: string; readonly reason: string };
  /**
   * Acknowledges a gap up to `until`, the end that the person saw. If a later poll makes the gap longer, the new part
   * stays open.
   */
  readonly 'acknowledge-gap': {
    readonly id: string;
    readonly until: string;
    readonly by: string;
    readonly reason: string;
  };
  /** Fires an event. By default, the payload is the example for the type. */
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
  /** How many of the matching events the action can change, by state. */
  readonly eligible: number;
  /** How many events the action changed or ran. 0 after a dry run. */
  readonly changed: number;
  /**
   * The number of runs by outcome, such as `{ handled: 3 }`. `error` counts runs that threw an error. `elsewhere`
   * counts the last run if a receiver with a different inbox ran the event.
   */
  readonly outcomes: Readonly<Record<string, number>>;
  /** The ids of the events that a dry run found. The action itself must not change any other event. */
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

/** The body of every refused or failed request. */
export interface Problem {
  readonly message: string;
}

/** `GET api/session` */
export interface Session {
  /** The name of the inspected sandbox or inbox, such as `sandbox` or `app.db`. */
  readonly name: string;
  readonly views: readonly View[];
  readonly actions: readonly ActionName[];
  /** The value to send as the `x-inspector-token` header with each action. */
  readonly actionToken: string;
  /** The current position of the stream. Pass it as `?after` to miss nothing that happens after this response. */
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
  /** The id of the attempt, unique in this source. */
  readonly id: string;
  readonly at: string;
  readonly eventId: string;
  readonly type: string;
  /** Whether the bytes that were sent differ from the event. @default false */
  readonly edited?: boolean | undefined;
  /** Whether a person sent the attempt to a URL that is not the endpoint's. @default false */
  readonly elsewhere?: boolean | undefined;
  readonly endpoint: string;
  /** The number of the attempt within the delivery, counted from 1. */
  readonly attempt: number;
  readonly kind: AttemptKind;
  readonly status: number | null;
  /** The outcome or code in the response, or the reason why there was no response. */
  readonly outcome: string | null;
  readonly durationMs: number;
  readonly faults: readonly string[];
}

/** How a state or an attempt is shown. */
export type Tone = 'good' | 'bad' | 'doubtful' | 'neutral';

/** The state of an event in an inbox or, without an inbox, the kind of its attempts. */
export type EventState = InboxState | AttemptKind;

/**
 * An attempt at an event by a delivery or an inbox, or something that a person did with the event. Times are epoch ms.
 */
export interface AttemptLine {
  /** The id of the attempt. `null` for an attempt of an inbox, which has no bytes. */
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
  /** When the event was received or first attempted. */
  readonly at: number;
  /** When the event will run again or, if it is leased, when the lease ends. */
  readonly dueAt: number | null;
  readonly key: string | null;
  /** At most ten completed attempts: the newest ones, listed with the oldest first. */
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
  /** Only events in the group with this error, which has `…` in place of its variable parts. */
  readonly group?: string | undefined;
  readonly key?: string | undefined;
  /** Only events with at least this many attempts. */
  readonly attempts?: number | undefined;
  /** Only events with this value in the payload, such as `transfer_id=trf_1`. */
  readonly payload?: string | undefined;
  readonly id?: string | undefined;
  readonly text?: string | undefined;
}

/** `GET api/events?limit&after` with an {@link EventFilter}: newest first. */
export interface EventPage {
  readonly rows: readonly EventRow[];
  /** Pass this as `after` to get the next page. `null` on the last page. */
  readonly next: string | null;
  /** How many events were read to find `id` or `text`, which an inbox cannot look up. `null` if no event had to be read. */
  readonly searched: number | null;
}

/** `GET api/events/counts` with an {@link EventFilter}. The filter's `state` does not affect `states`. */
export interface EventCounts {
  /** `null` if an inbox would have to search for `id` or `text`. */
  readonly states: readonly { readonly state: EventState; readonly count: number }[] | null;
  readonly types: readonly string[];
  /**
   * Counts of the events that are not in the list, because they have not been attempted yet or their attempts are no
   * longer kept. In an inbox, all of these counts are 0.
   */
  readonly dropped: DroppedEvents;
}

export interface DroppedEvents {
  /** Events for which an endpoint never returned a 2xx, and which will not be attempted again. */
  readonly exhausted: number;
  /** Events for which every endpoint returned a 2xx. */
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
  /** Whether `GET api/events/:id/body` returns the JSON of the event. */
  readonly body: 'stored' | 'pruned' | 'none';
  /** The exact text of the event, or `null` if it is long or missing. */
  readonly text: string | null;
  /** The command that prints the event. `null` without an inbox. */
  readonly command: string | null;
  /** The steps of the handler, without their results. */
  readonly steps: readonly StepRow[];
  /** When the event last changed. `null` without an inbox. */
  readonly updatedAt: number | null;
}

/** `GET api/find?key`: the event with this id, or else the movement with this ordering key or payload value. */
export interface Found {
  readonly event: string | null;
  /** The movement, if no event has this id. `null` without an inbox. */
  readonly movement: MovementReport | null;
}

export interface MovementReport {
  /** The events, in order of creation. */
  readonly rows: readonly MovementRow[];
  /** How many events could not be searched, because their text is gone. */
  readonly unread: number;
  /** What is proven about later events, as a sentence. */
  readonly proof: string;
  readonly isProven: boolean;
}

export interface MovementRow extends EventRow {
  readonly createdAt: number;
  readonly origin: string;
  /** The exact text of the event, or `null` if it is long or missing. */
  readonly text: string | null;
}

/** A step of the handler of an event. */
export interface StepRow extends Omit<InboxStep, 'result'> {
  /** Whether the step recorded a result. If it did not, its effect is unknown. */
  readonly hasResult: boolean;
}

export interface OverviewCheck {
  readonly name: string;
  /** How the check is shown. `doubtful` means that the inbox is healthy, but that someone should look at the check. */
  readonly tone: Tone;
  readonly message: string;
  readonly count: number | null;
  /** When the problem that needs a person began, in epoch ms. `null` if unknown. */
  readonly since: number | null;
  /** The most frequent errors of the events. Empty if the message itself names the cause. */
  readonly causes: readonly string[];
}

/** A number for the last hour. */
export interface FlowNumber {
  readonly name: string;
  readonly count: number;
  readonly tone: Tone;
  /** What the number includes or excludes, as a sentence. */
  readonly note: string | null;
}

/** `GET api/overview` */
export interface OverviewReport {
  readonly tone: Tone;
  /** Whether everything is fine, as a sentence. */
  readonly verdict: string;
  /** The checks. Those that need a person come first. */
  readonly checks: readonly OverviewCheck[];
  readonly flow: readonly FlowNumber[];
  /** The errors of dead and failed events. `null` without an inbox. */
  readonly errors: ErrorGroups | null;
  /** The time of the report, in epoch ms. */
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

/** A gap, with an id for the action, a sentence about the gap, and the command that reconciles its span. */
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
  /** The result of the last poll, in sentences. `null` before the first poll or if this source does not poll. */
  readonly lastPoll: {
    readonly at: number;
    readonly diagnosis: string;
    readonly problems: readonly string[];
  } | null;
}

/** The maximum number of movements that the page shows. It shows the newest. */
export const MAX_MOVEMENTS = 200;

/** `GET api/sandbox` */
export interface ServiceReport {
  readonly movements: readonly Movement[];
  readonly endpoints: readonly Endpoint[];
  readonly faults: Faults;
  /** The sandbox's clock. `now` is an ISO 8601 time. */
  readonly clock: { readonly mode: string; readonly now: string };
  /** An example payload for each type, used in the form. */
  readonly examples: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

/** `GET api/stream`: server-sent events. The name of each event is its `kind`. */
export type StreamEntry =
  /** The data of a view has changed, so the page requests it again. */
  | { readonly kind: 'changed'; readonly view: View }
  /** The source has been unreadable since `since` (ISO 8601). */
  | { readonly kind: 'lost'; readonly since: string; readonly why: string }
  | { readonly kind: 'recovered' };
