/** The three functions of template.yaml: deliveries, a scheduled poll, and health. */
import { createPoller } from 'stablehooks/catch-up';
import { createClient } from 'stablehooks/client';
import { toHealthRoutes } from 'stablehooks/health';
import { toLambdaHandler } from 'stablehooks/lambda';
import { inbox, receiver } from './receiver.js';

const { STABLEHOOKS_BASE_URL = '', STABLEHOOKS_TOKEN = '' } = process.env;

/** Behind an HTTP API: POST /hooks. */
export const hooks = toLambdaHandler(receiver);

const client = createClient({ baseUrl: STABLEHOOKS_BASE_URL, token: STABLEHOOKS_TOKEN });
const poller = createPoller({ client, receiver });

/** Every minute: finds events that push missed, and runs failed ones. It throws, for an alarm, if a poll cannot be relied on. */
export async function poll() {
  const { diagnosis, proven, unconfirmed, failed, problems } = await poller.pollOnce({
    signal: AbortSignal.timeout(50_000),
  });
  if (failed > 0 || problems.length > 0 || !(proven || unconfirmed)) throw new Error(diagnosis);
  return diagnosis;
}

const routes = toHealthRoutes(inbox, { requirePoll: true });

/** Behind an HTTP API: GET /healthz. */
export async function healthz() {
  const response = await routes.health();
  const headers = Object.fromEntries(response.headers);
  return { statusCode: response.status, headers, body: await response.text() };
}
