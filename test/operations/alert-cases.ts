/** For each alert, series with which it fires, and series with which it does not. */

/** Series of a test by their selectors: `name{label="value"}`, without `job`. */
export type Series = Readonly<Record<string, string>>;

/** What an alert is tested with: series in addition to {@link HEALTHY}, or instead of them. */
export interface AlertCase {
  readonly alert: string;
  readonly fires: Series;
  /** Almost the same, but nothing fires. */
  readonly silent: Series;
  /** When it is evaluated, in minutes. */
  readonly at: number;
  /** The minutes from one value of a series to the next. Above 5, rules are evaluated each hour, and other alerts can fire. @default 1 */
  readonly step?: number;
  readonly summary: string;
  /** The labels of the alert, without `job` and `severity`. */
  readonly labels?: Readonly<Record<string, string>>;
  /** Other alerts of the same cause. */
  readonly also?: readonly string[];
}

/** More than any test reads. */
const LENGTH = 100;
const always = (value: number) => `${value}x${LENGTH}`;
const growing = (perStep: number) => `0+${perStep}x${LENGTH}`;
/** A series that begins in a minute, with this value, and stays. */
const from = (minute: number, value: number) => `_x${minute - 1} ${value}x${LENGTH}`;
/** A series that changes in a minute. */
const until = (minute: number, before: number, after: number) => `${before}x${minute - 1} ${after}x${LENGTH}`;

const outcome = (kind: string, code?: string, instance = 'a') =>
  `stablehooks_outcomes_total{instance="${instance}", stablehooks_outcome="${kind}", stablehooks_origin="push"${code === undefined ? '' : `, error_type="${code}"`}}`;
/** Deliveries with a valid signature. */
const handled = (instance = 'a', secretIndex?: number) =>
  outcome('handled', undefined, instance).replace(
    '}',
    `, stablehooks_event_type="transfer.settled"${secretIndex === undefined ? '' : `, stablehooks_secret_index="${secretIndex}"`}}`,
  );
const events = (state: string, instance = 'a') =>
  `stablehooks_inbox_events{instance="${instance}", stablehooks_inbox_state="${state}"}`;
const oldest = (state: string, instance = 'a') =>
  `stablehooks_inbox_oldest{instance="${instance}", stablehooks_inbox_state="${state}"}`;
const age = (le: string) =>
  `stablehooks_event_age_bucket{instance="a", stablehooks_origin="push", le="${le}"}`;
const polls = (result: string, recovered = false, instance = 'a') =>
  `stablehooks_polls_total{instance="${instance}", stablehooks_poll_result="${result}", stablehooks_poll_recovered="${recovered}"}`;

/** Two processes with one inbox; one of them polls. */
export const HEALTHY: Series = Object.fromEntries([
  ...['a', 'b'].flatMap((instance) => [
    [handled(instance), growing(2)],
    ...['received', 'leased', 'failed', 'dead', 'parked'].flatMap((state) => [
      [events(state, instance), always(0)],
      [oldest(state, instance), always(0)],
    ]),
  ]),
  [age('0.5'), growing(4)],
  [age('300'), growing(4)],
  [age('900'), growing(4)],
  [age('+Inf'), growing(4)],
  [polls('proven'), growing(1)],
]);

export const CASES: readonly AlertCase[] = [
  {
    alert: 'StablehooksMetricsMissing',
    fires: Object.fromEntries(Object.keys(HEALTHY).map((series) => [series, '0x40 stale'])),
    silent: { [events('dead', 'b')]: '0x40 stale' },
    at: 75,
    summary: 'No process of app exports metrics. Most other alerts cannot fire.',
  },
  {
    alert: 'StablehooksDeadEvents',
    fires: { [events('dead')]: always(2), [events('dead', 'b')]: always(2) },
    // Requeued: the counter still shows it, the inbox does not.
    silent: { [outcome('dead', 'ERR_HANDLER_PERMANENT')]: from(30, 1) },
    at: 35,
    summary: 'Dead events of app: 2. Nothing retries them.',
  },
  {
    alert: 'StablehooksEventsNotRun',
    fires: { [oldest('leased')]: `0+60x${LENGTH}`, [oldest('leased', 'b')]: `0+60x${LENGTH}` },
    silent: { [oldest('leased')]: always(890), [oldest('failed')]: always(3_600) },
    at: 21,
    labels: { stablehooks_inbox_state: 'leased' },
    summary: 'An event of app is leased for 21m 0s. Nothing runs it.',
  },
  {
    alert: 'StablehooksEventsFailing',
    fires: { [events('failed')]: until(10, 0, 3), [events('failed', 'b')]: until(10, 0, 3) },
    silent: { [events('failed')]: `0x10 3x50 0x${LENGTH}` },
    at: 75,
    summary: 'Events of app that failed and wait for a retry: 3.',
  },
  {
    alert: 'StablehooksHandlersFailing',
    // A new kind of failure: its series begins with the failures of its first minute.
    fires: { [outcome('failed', 'ERR_HANDLER_TIMEOUT')]: from(30, 20) },
    silent: { [outcome('failed', 'ERR_HANDLER_TIMEOUT')]: from(30, 5) },
    at: 37,
    summary: 'Failed attempts of app within 15 minutes: 20, more than one in ten.',
  },
  {
    alert: 'StablehooksLeaseLost',
    fires: { [outcome('busy', 'ERR_LEASE_LOST')]: from(30, 1) },
    silent: { [outcome('busy', 'ERR_EVENT_BUSY')]: from(30, 1) },
    at: 31,
    summary: 'A handler of app ran longer than its lease. Its event can take effect twice.',
  },
  {
    alert: 'StablehooksEventsLate',
    fires: { [age('0.5')]: always(0), [age('300')]: always(0), [age('900')]: always(0) },
    silent: { [age('0.5')]: always(0) },
    at: 60,
    summary: 'One in twenty events of app is handled 15m 0s or more after its creation.',
  },
  {
    alert: 'StablehooksUnknownTypes',
    fires: { [events('parked')]: always(1) },
    silent: { [outcome('parked')]: from(30, 1) },
    at: 31,
    summary: 'Events of app of types that this release does not know: 1.',
  },
  {
    alert: 'StablehooksUnavailable',
    fires: { [outcome('unavailable', 'ERR_INBOX_FAILED')]: from(30, 1) },
    // It was so before, and Prometheus has seen it all the time.
    silent: { [outcome('unavailable', 'ERR_INBOX_FAILED')]: always(7) },
    at: 31,
    labels: { error_type: 'ERR_INBOX_FAILED' },
    summary: 'Deliveries and attempts of app that ended with ERR_INBOX_FAILED: 1.',
  },
  {
    alert: 'StablehooksMisconfigured',
    fires: { [outcome('failed', 'ERR_BODY_UNAVAILABLE')]: from(30, 1) },
    silent: { [outcome('failed', 'ERR_BODY_INCOMPLETE')]: from(30, 1) },
    at: 31,
    labels: { error_type: 'ERR_BODY_UNAVAILABLE' },
    summary: 'Deliveries of app fail with ERR_BODY_UNAVAILABLE, and each retry will fail as well.',
  },
  {
    alert: 'StablehooksNothingAuthentic',
    // A function gives one tenant a wrong secret, and another one none.
    fires: {
      [outcome('rejected', 'ERR_SIGNATURE_MISMATCH')]: from(50, 1),
      [outcome('rejected', 'ERR_SECRET_UNKNOWN')]: from(50, 2),
      [handled('a')]: always(9),
      [handled('b')]: always(9),
    },
    silent: { [outcome('rejected', 'ERR_SECRET_UNKNOWN')]: from(50, 3) },
    at: 55,
    summary: 'app rejected 3 deliveries for their signatures, and accepted none for 45 minutes.',
  },
  {
    alert: 'StablehooksSignaturesKeepFailing',
    // One delivery in an hour: of a tenant with a wrong secret, and in the fourth hour of one without a secret.
    fires: {
      [outcome('rejected', 'ERR_SIGNATURE_MISMATCH')]: `_x23 1x11 2x23 3x${LENGTH}`,
      [outcome('rejected', 'ERR_SECRET_UNKNOWN')]: from(48, 1),
    },
    // None in the third of the four hours, and many in the others.
    silent: {
      [outcome('rejected', 'ERR_SIGNATURE_MISMATCH')]: `_x23 5x5 10x41 15x${LENGTH}`,
      [outcome('rejected', 'ERR_SECRET_UNKNOWN')]: from(60, 5),
    },
    at: 310,
    step: 5,
    summary: 'app rejected deliveries for their signatures in each of the last 4 hours.',
  },
  {
    alert: 'StablehooksDeliveriesRefused',
    fires: { [outcome('rejected', 'ERR_EVENT_MALFORMED')]: from(30, 1) },
    silent: { [outcome('rejected', 'ERR_METHOD_NOT_ALLOWED')]: from(30, 1) },
    at: 31,
    labels: { error_type: 'ERR_EVENT_MALFORMED' },
    summary: 'Deliveries of app were refused with ERR_EVENT_MALFORMED. The service does not send them again.',
  },
  {
    alert: 'StablehooksBusy',
    fires: { [outcome('busy', 'ERR_RECEIVER_BUSY')]: growing(10) },
    silent: { [outcome('busy', 'ERR_RECEIVER_BUSY')]: growing(3) },
    at: 60,
    summary: 'app refused 150 deliveries within 15 minutes, because maxConcurrency handlers ran.',
  },
  {
    alert: 'StablehooksOldSecretInUse',
    fires: { [handled('a', 1)]: growing(1) },
    // The rotation began two days ago.
    silent: { [handled('a', 1)]: `_x25 0+1x${LENGTH}` },
    at: 73 * 60,
    step: 60,
    summary: 'The service still signs deliveries of app with an old secret, for more than 3 days.',
  },
  {
    alert: 'StablehooksGapOpen',
    fires: { [polls('gaps')]: growing(1) },
    // Closed, or acknowledged.
    silent: { [polls('gaps')]: `0+1x20 20x${LENGTH}` },
    at: 60,
    summary: 'Polls of app leave gaps open. Events may be missing.',
  },
  {
    alert: 'StablehooksPollNotRunning',
    fires: { [polls('proven')]: `0+1x20 20x${LENGTH}`, [polls('busy')]: growing(1) },
    // The process that polled ended, and another one polls.
    silent: { [polls('proven')]: '0+1x20 stale', [polls('unconfirmed', false, 'c')]: `_x20 1+1x${LENGTH}` },
    at: 70,
    summary: 'Nothing polls the list for app. An event whose push is lost stays lost.',
  },
  {
    alert: 'StablehooksPollUnproven',
    fires: { [polls('proven')]: `0+1x20 20x${LENGTH}`, [polls('unproven')]: `0x20 0+1x${LENGTH}` },
    silent: { [polls('unproven')]: growing(1) },
    at: 65,
    summary: 'No poll of app has proven anything for 30 minutes.',
  },
  {
    alert: 'StablehooksPushBroken',
    fires: {
      [polls('proven', true)]: growing(1),
      [handled('a')]: always(9),
      [handled('b')]: always(9),
    },
    // A first poll brought in what was there before.
    silent: { [polls('proven', true)]: from(54, 1), [handled('a')]: always(9), [handled('b')]: always(9) },
    at: 60,
    summary: '30 polls of app found events within 30 minutes, and none came by push.',
  },
];
