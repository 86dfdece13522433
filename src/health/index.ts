export { type Health, type HealthCheck, health } from './health.js';
export {
  HEALTH_CHECKS,
  type HealthCheckName,
  type HealthInbox,
  type HealthLimits,
  type HealthTone,
} from './options.js';
export { type HealthRoutes, toHealthRoutes } from './routes.js';
