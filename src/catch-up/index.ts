/** `stablehooks/catch-up`: finds what push missed, and proves that nothing is missing or says that it cannot. */
export type { Answer, Mark, Question } from './coverage.js';
export { type CronRouteOptions, toCronRoute } from './cron-route.js';
export type { PollerOptions } from './options.js';
export type { ListPage, ListsEvents, UnreadableElement } from './page.js';
export { createPoller, type Poller } from './poller.js';
export type { Problem, ProblemCode } from './problem.js';
export type { Gap, PollReport } from './report.js';
export {
  type Finding,
  type Inquiry,
  type Survey,
  type SurveyRules,
  surveyList,
  type Verdict,
} from './survey.js';
