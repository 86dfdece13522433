/** GET /cron, with CRON_SECRET: finds events that push missed, and runs failed ones. Vercel calls it every minute. */
import { createPoller, toCronRoute } from 'stablehooks/catch-up';
import { createClient } from 'stablehooks/client';
import { receiver } from '../../lib/receiver';

// Created at the first request, because `next build` loads this module without these variables.
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
