export type { ListVerdict } from './coverage.js';
export { type CronRouteOptions, toCronRoute } from './cron-route.js';
export { type Acknowledgement, acknowledgeGap, describeGap, type Gap, listGaps } from './gaps.js';
export type { ListedEvents, PollerClient } from './list.js';
export type { PollerOptions } from './options.js';
export { createPoller, type Poller } from './poller.js';
export type { PollProblem, PollProblemCode } from './problems.js';
export type { PollReport } from './report.js';
export { isSameElement } from './same-event.js';
