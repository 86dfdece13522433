/** GET /cron, protected by CRON_SECRET: finds missed events and retries failed ones. vercel.json schedules it every minute. */
import { createPoller, toCronRoute } from 'stablehooks/catch-up';
import { createClient } from 'stablehooks/client';
import { receiver } from '../../lib/receiver';

// Created on the first request, because `next build` loads this module without these variables.
const poller = () =>
  createPoller({
    client: createClient({
      baseUrl: process.env.STABLEHOOKS_BASE_URL ?? '',
      token: process.env.STABLEHOOKS_TOKEN ?? '',
    }),
    receiver,
  });

export const maxDuration = 60;
export const { GET } = toCronRoute(poller, { secret: () => process.env.CRON_SECRET ?? '' });
