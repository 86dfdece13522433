/** The requests and answers of the page, shared with the server. */
import type { InboxState, InboxStep } from 'stablehooks';
import type { Gap } from 'stablehooks/catch-up';
import type { ErrorGroups } from '../explain/error-groups.js';
import type { Finding } from '../explain/replies.js';
import type { Endpoint, Faults, FaultsInput, Movement } from '../sandbox/index.js';

/** The views of the page. A source has some of them. */
export type View = 'overview' | 'events' | 'coverage' | 'sandbox';

export interface SelectedFilter extends EventFilter {
  readonly ids?: readonly string[] | undefined;
  /** Events to leave out: their handler said that a retry cannot help, or an attempt recorded no result. */
  readonly except?: readonly ('permanent' | 'expired')[] | undefined;
}

/** Which events of an inbox an action is about. With `dryRun` it changes nothing, and answers what it would do. */
export interface Selected {
  readonly filter: SelectedFilter;
  readonly dryRun?: boolean | undefined;
}

/** The input of each action: `POST api/actions/<name>` with this as JSON. */
export interface ActionInputs {
  /** Makes one more attempt at a delivery; `body` (base64) replaces its bytes, `url` its endpoint. */
  readonly resend: {
    readonly id: string;
    readonly url?: string | undefined;
    readonly body?: string | undefined;
  };
  /** Makes dead and failed events due now, at most 10,000. Their history keeps who did it and why. */
  readonly requeue: Selected & { readonly by?: string | undefined; readonly reason?: string | undefined };
  /** Runs events now, one after the other, at most 100. */
  readonly run: Selected;
  /** Ends events that must not run, at most 10,000. */
  readonly discard: Selected & { readonly by: string; readonly reason: string };
  /** Up to `until`, as the person saw it: what a poll has added since stays open. */
  readonly 'acknowledge-gap': {
    readonly id: string;
    readonly until: string;
    readonly by: string;
    readonly reason: string;
  };
  /** Fires an event; an example payload of the type by default. */
  readonly fire: { readonly type: string; readonly payload?: Readonly<Record<string, unknown>> | undefined };
  readonly 'set-faults': FaultsInput;
  readonly 'clear-faults': Readonly<Record<string, never>>;
  readonly 'advance-clock': { readonly ms: number };
  readonly move: { readonly kind: 'accept' | 'transfer' | 'redeem'; readonly amount: string };
  readonly 'add-endpoint': { readonly url: string };
  readonly 'remove-endpoint': { readonly id: string };
}

export type ActionName = keyof ActionInputs;

/** The result of an action on events, or of its dry run. */
export interface SelectedResult {
  /** How many events meet the filter. */
  readonly matched: number;
  /** How many of them the action can change, by their state. */
  readonly eligible: number;
  /** How many it changed or ran; 0 after a dry run. */
  readonly changed: number;
  /**
   * How runs ended, such as `{ handled: 3 }`; `error` for a run that threw, `elsewhere` for the last one if this inbox does not
   * show it: the other events were not run.
   */
  readonly outcomes: Readonly<Record<string, number>>;
  /** The ids of the events that a dry run found, for the action itself: it must change no event that nobody has seen. */
  readonly ids: readonly string[];
}

/** The answer to each action. */
export interface ActionResults {
  /** The new attempt. */
  readonly resend: AttemptRow;
  readonly requeue: SelectedResult;
  readonly run: SelectedResult;
  readonly discard: SelectedResult;
  readonly 'acknowledge-gap': { readonly done: boolean };
  /** The id of the event. */
  readonly fire: { readonly id: string };
  readonly 'set-faults': Faults;
  readonly 'clear-faults': Faults;
  readonly 'advance-clock': { readonly now: string };
  readonly move: { readonly id: string };
  readonly 'add-endpoint': { readonly id: string };
  readonly 'remove-endpoint': Readonly<Record<string, never>>;
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

/** One attempt at a delivery. Times are ISO 8601. */
export interface AttemptRow {
  /** Unique in this source. */
  readonly id: string;
  readonly at: string;
  readonly eventId: string;
  readonly type: string;
  /** Whether the sent bytes differ from those of the event. @default false */
  readonly edited?: boolean | undefined;
  /** Whether a person sent it to another URL than that of the endpoint. @default false */
  readonly elsewhere?: boolean | undefined;
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

/** How a state or an attempt is shown. */
export type Tone = 'good' | 'bad' | 'doubtful' | 'neutral';

/** The state of an event: of an inbox, or without one the kind of its attempts. */
export type EventState = InboxState | AttemptKind;

/** An attempt at an event, by a delivery or by an inbox, or what a person did with it. Times are epoch ms. */
export interface AttemptLine {
  /** `null` for an attempt of an inbox, which has no bytes. */
  readonly id: string | null;
  readonly at: number;
  /** Such as `Attempt 2`, or `Discarded by Ada`. */
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
  /** How it ended or stands, such as `Accepted on attempt 5`. */
  readonly verdict: string;
  readonly attempts: number;
  /** When it was received, or first attempted. */
  readonly at: number;
  /** When it runs again, or its lease ends. */
  readonly dueAt: number | null;
  readonly key: string | null;
  /** The newest attempts that have ended, oldest first: at most ten. */
  readonly history: readonly AttemptLine[];
}

/** The filter of events: those that meet every condition. `id` is a part of an id, `text` of a body, in any case. */
export interface EventFilter {
  readonly state?: EventState | undefined;
  readonly type?: string | undefined;
  /** In an inbox, last changed at this time or later; without one, first attempted. Epoch ms. */
  readonly since?: number | undefined;
  /** The same, before this time. */
  readonly until?: number | undefined;
  readonly error?: string | undefined;
  /** The error of a group, with `…` for its variable parts. */
  readonly group?: string | undefined;
  readonly key?: string | undefined;
  /** At least so many attempts. */
  readonly attempts?: number | undefined;
  /** A value of the payload, such as `transfer_id=trf_1`. */
  readonly payload?: string | undefined;
  readonly id?: string | undefined;
  readonly text?: string | undefined;
}

/** `GET api/events?limit&after` with an {@link EventFilter}: newest first. */
export interface EventPage {
  readonly rows: readonly EventRow[];
  /** Pass it as `after` for the next page; `null` at the end. */
  readonly next: string | null;
  /** How many events were read for `id` or `text`, which no inbox can look up; `null` if none had to be. */
  readonly searched: number | null;
}

/** `GET api/events/counts` with an {@link EventFilter}, whose `state` makes no difference to `states`. */
export interface EventCounts {
  /** `null` while `id` or `text` is searched for in an inbox. */
  readonly states: readonly { readonly state: EventState; readonly count: number }[] | null;
  /** The types that are known. */
  readonly types: readonly string[];
  /** Events that the list lacks, because none of their attempts is kept or was made yet; zeros in an inbox. */
  readonly dropped: DroppedEvents;
}

export interface DroppedEvents {
  /** An endpoint never answered with 2xx, and is not tried again. */
  readonly exhausted: number;
  /** Every endpoint answered with 2xx. */
  readonly delivered: number;
  readonly unattempted: number;
}

export const NONE_DROPPED: DroppedEvents = { exhausted: 0, delivered: 0, unattempted: 0 };

/** `GET api/events/:id` */
export interface EventDetail extends EventRow {
  readonly explanation: Finding;
  /** How it first came; `null` without an inbox. */
  readonly origin: string | null;
  /** The attempts at deliveries, oldest first. */
  readonly deliveries: readonly AttemptLine[];
  /** Whether `GET api/events/:id/body` has its JSON. */
  readonly body: 'stored' | 'pruned' | 'none';
  /** Its exact text if it is short; `null` otherwise. */
  readonly text: string | null;
  /** The command that prints it; `null` without an inbox. */
  readonly command: string | null;
  /** The steps of its handler, without their results. */
  readonly steps: readonly StepRow[];
  /** When it last changed; `null` without an inbox. */
  readonly updatedAt: number | null;
}

/** `GET api/find?key`: the event with this id, or the movement with this ordering key or value of a payload. */
export interface Found {
  /** The id of the event. */
  readonly event: string | null;
  /** Without an event of this id; `null` without an inbox. */
  readonly movement: MovementReport | null;
}

export interface MovementReport {
  /** In the order of their creation. */
  readonly rows: readonly MovementRow[];
  /** How many events could not be searched, because their text is gone. */
  readonly unread: number;
  /** What is proven of later events, as a sentence. */
  readonly proof: string;
  readonly isProven: boolean;
}

export interface MovementRow extends EventRow {
  readonly createdAt: number;
  readonly origin: string;
  /** Its exact text if it is short; `null` otherwise. */
  readonly text: string | null;
}

/** A step of the handler of an event. */
export interface StepRow extends Omit<InboxStep, 'result'> {
  /** Whether it recorded a result; without one, its effect is unknown. */
  readonly hasResult: boolean;
}

export interface OverviewCheck {
  readonly name: string;
  /** `doubtful` is healthy, and worth to be known. */
  readonly tone: Tone;
  readonly message: string;
  readonly count: number | null;
  /** Since when it needs a person, in epoch ms; `null` if that is not known. */
  readonly since: number | null;
  /** The most frequent errors of its events; empty if the message says the cause. */
  readonly causes: readonly string[];
}

/** A number of the last hour. */
export interface FlowNumber {
  readonly name: string;
  readonly count: number;
  readonly tone: Tone;
  /** What the number includes or leaves out, as a sentence. */
  readonly note: string | null;
}

/** `GET api/overview` */
export interface OverviewReport {
  readonly tone: Tone;
  /** Whether all is well, as a sentence. */
  readonly verdict: string;
  /** Checks that need a person come first. */
  readonly checks: readonly OverviewCheck[];
  readonly flow: readonly FlowNumber[];
  /** The errors of dead and failed events; `null` without an inbox. */
  readonly errors: ErrorGroups | null;
  /** Epoch ms. */
  readonly at: number;
}

/** A request or a response, byte for byte. */
export interface Message {
  readonly headers: Readonly<Record<string, string>>;
  /** base64 */
  readonly body: string;
}

/** `GET api/attempts/:id` */
export interface AttemptDetail extends AttemptRow {
  readonly request: Message & { readonly method: string; readonly url: string };
  readonly response:
    | (Message & { readonly status: number /** Whether only its start was kept. */; readonly cut: boolean })
    | null;
  readonly error: string | null;
  readonly verdict: Finding;
}

/** A gap, with an id for the action, its sentence, and the command that compares the books of its span. */
export interface GapRow extends Gap {
  readonly id: string;
  readonly text: string;
  readonly command: string;
}

/** `GET api/coverage`. Times are epoch ms. */
export interface CoverageReport {
  readonly since: number | null;
  /** Every event created up to here is in the inbox, except in the gaps; `null` before the first poll. */
  readonly watermark: number | null;
  readonly gaps: readonly GapRow[];
  readonly types: readonly string[];
  /** The result of the last poll, in sentences; `null` if this source does not poll, or before the first poll. */
  readonly lastPoll: {
    readonly at: number;
    readonly diagnosis: string;
    readonly problems: readonly string[];
  } | null;
}

/** How many movements the page shows, the newest. */
export const MAX_MOVEMENTS = 200;

/** `GET api/sandbox` */
export interface ServiceReport {
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
  /** The data of a view has changed, and the page requests it again. */
  | { readonly kind: 'changed'; readonly view: View }
  /** The source has been unreadable since `since` (ISO 8601). */
  | { readonly kind: 'lost'; readonly since: string; readonly why: string }
  | { readonly kind: 'recovered' };
