export { type Health, type HealthCheck, type HealthInbox, type HealthLimits, health } from './health.js';
export { type HealthRoutes, toHealthRoutes } from './routes.js';
