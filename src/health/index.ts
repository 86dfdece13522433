export { HEALTH_CHECKS, type HealthCheckName, type HealthTone } from './checks.js';
export { type Health, type HealthCheck, health } from './health.js';
export type { HealthInbox, HealthLimits } from './options.js';
export { type HealthRoutes, toHealthRoutes } from './routes.js';
