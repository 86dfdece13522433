/** GET /cron: one poll of the list for events that push missed, for a scheduler that sends CRON_SECRET. */
import { createPoller, toCronRoute } from 'stablehooks/catch-up';
import { createClient } from 'stablehooks/client';
import { receiver } from '../../lib/receiver';

// Made at the first request: `next build` loads this module without these variables.
const poller = () =>
  createPoller({
    client: createClient({
      baseUrl: process.env['STABLEHOOKS_BASE_URL'] ?? '',
      token: process.env['STABLEHOOKS_TOKEN'] ?? '',
    }),
    receiver,
  });

export const { GET } = toCronRoute(poller, { secret: () => process.env['CRON_SECRET'] ?? '' });
