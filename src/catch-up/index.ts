export type { ListVerdict, Verdict } from './coverage.js';
export { type CronRouteOptions, toCronRoute } from './cron-route.js';
export type { ListedEvents, MalformedElement, PollerClient } from './list.js';
export { createPoller, type Poller, type PollerOptions } from './poller.js';
export type { Gap, PollProblem, PollProblemCode, PollReport } from './report.js';
