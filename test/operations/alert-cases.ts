/** For each alert, series with which it fires, and series with which it does not. */

import { HEALTH_CHECKS } from 'stablehooks/health';

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
const health = (check: string, instance = 'a') =>
  `stablehooks_health{instance="${instance}", stablehooks_health_check="${check}"}`;

/** Two processes with one inbox. */
export const HEALTHY: Series = Object.fromEntries([
  ...['a', 'b'].flatMap((instance) => [
    [handled(instance), growing(2)],
    ...HEALTH_CHECKS.map((check) => [health(check, instance), always(0)]),
    ...['received', 'leased', 'failed', 'dead', 'parked'].flatMap((state) => [
      [events(state, instance), always(0)],
      [oldest(state, instance), always(0)],
    ]),
  ]),
  [age('0.5'), growing(4)],
  [age('300'), growing(4)],
  [age('900'), growing(4)],
  [age('+Inf'), growing(4)],
]);

export const CASES: readonly AlertCase[] = [
  {
    alert: 'StablehooksUnhealthy',
    fires: { [health('dead')]: until(10, 0, 2), [health('dead', 'b')]: until(10, 0, 2) },
    // For a minute.
    silent: { [health('dead')]: `0x10 2 0x${LENGTH}` },
    at: 15,
    labels: { stablehooks_health_check: 'dead' },
    summary: 'In app, the health check `dead` is failing. `stablehooks status` shows why.',
  },
  {
    alert: 'StablehooksWarning',
    fires: { [health('ignored')]: until(10, 0, 1) },
    silent: { [health('ignored')]: `0x10 1x50 0x${LENGTH}` },
    at: 75,
    labels: { stablehooks_health_check: 'ignored' },
    summary: 'In app, the health check `ignored` reports a warning. `stablehooks status` shows why.',
  },
  {
    alert: 'StablehooksMetricsMissing',
    fires: Object.fromEntries(Object.keys(HEALTHY).map((series) => [series, '0x40 stale'])),
    silent: { [events('dead', 'b')]: '0x40 stale' },
    at: 75,
    summary: "No process of app exports metrics, so most other alerts can't fire.",
  },
  {
    alert: 'StablehooksLeaseLost',
    fires: { [outcome('busy', 'ERR_LEASE_LOST')]: from(30, 1) },
    silent: { [outcome('busy', 'ERR_EVENT_BUSY')]: from(30, 1) },
    at: 31,
    summary: 'In app, a handler ran longer than `leaseMs`, so its event may have taken effect twice.',
  },
  {
    alert: 'StablehooksEventsLate',
    fires: { [age('0.5')]: always(0), [age('300')]: always(0), [age('900')]: always(0) },
    silent: { [age('0.5')]: always(0) },
    at: 60,
    summary: 'In app, one in twenty events is handled 15m 0s or more after it was created.',
  },
  {
    alert: 'StablehooksUnavailable',
    fires: { [outcome('unavailable', 'ERR_INBOX_FAILED')]: from(30, 1) },
    // It was so before, and Prometheus has seen it all the time.
    silent: { [outcome('unavailable', 'ERR_INBOX_FAILED')]: always(7) },
    at: 31,
    labels: { error_type: 'ERR_INBOX_FAILED' },
    summary: 'In app, deliveries or attempts failed with ERR_INBOX_FAILED (1 within 15 minutes).',
  },
  {
    alert: 'StablehooksMisconfigured',
    fires: { [outcome('failed', 'ERR_BODY_UNAVAILABLE')]: from(30, 1) },
    silent: { [outcome('failed', 'ERR_BODY_INCOMPLETE')]: from(30, 1) },
    at: 31,
    labels: { error_type: 'ERR_BODY_UNAVAILABLE' },
    summary: 'In app, deliveries fail with ERR_BODY_UNAVAILABLE, and retries will fail as well.',
  },
  {
    alert: 'StablehooksBusy',
    fires: { [outcome('busy', 'ERR_RECEIVER_BUSY')]: growing(10) },
    silent: { [outcome('busy', 'ERR_RECEIVER_BUSY')]: growing(3) },
    at: 60,
    summary: 'app refused 150 deliveries within 15 minutes, because the `maxConcurrency` limit was reached.',
  },
  {
    alert: 'StablehooksOldSecretInUse',
    fires: { [handled('a', 1)]: growing(1) },
    // The rotation began two days ago.
    silent: { [handled('a', 1)]: `_x25 0+1x${LENGTH}` },
    at: 73 * 60,
    step: 60,
    summary: 'For more than 3 days, the service has been signing deliveries to app with an old secret.',
  },
];
