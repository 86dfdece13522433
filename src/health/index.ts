export {
  HEALTH_CHECKS,
  type Health,
  type HealthCheck,
  type HealthCheckName,
  type HealthInbox,
  type HealthLimits,
  type HealthTone,
  health,
} from './health.js';
export { type HealthRoutes, toHealthRoutes } from './routes.js';
