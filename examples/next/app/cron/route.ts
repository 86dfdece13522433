/** GET /cron: one poll of the list for events that push missed, for a scheduler that sends CRON_SECRET. */
import { createPoller, toCronRoute } from 'stablehooks/catch-up';
import { createClient } from 'stablehooks/client';
import { receiver } from '../../lib/receiver';

// Functions, because `next build` loads this module where none of these variables exists.
const client = () =>
  createClient({ baseUrl: process.env['SERVICE_URL'] ?? '', token: process.env['SERVICE_TOKEN'] ?? '' });

export const { GET } = toCronRoute(createPoller({ client, receiver }), {
  secret: () => process.env['CRON_SECRET'] ?? '',
});
