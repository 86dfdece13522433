/** GET /healthz, behind an HTTP API. */
import { toHealthRoutes } from 'stablehooks/health';
import { inbox } from './receiver.js';

const routes = toHealthRoutes(inbox, { requirePoll: true });

export async function handler() {
  const response = await routes.health();
  const headers = Object.fromEntries(response.headers);
  return { statusCode: response.status, headers, body: await response.text() };
}
