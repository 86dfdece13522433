/**
 * POST /edge by the App Router, on the Edge runtime, over WebCrypto.
 *
 * Postgres cannot be reached from here, so this receiver has an inbox in memory. In production, all receivers of the app
 * need one inbox that the Edge runtime can reach, such as redisInbox over Upstash.
 */
import { createReceiver } from 'stablehooks';
import { toNextRoute } from 'stablehooks/next';
import { handlers } from '../../lib/handlers';

export const runtime = 'edge';

// Made at the first delivery: `next build` loads this module without a secret.
export const { POST } = toNextRoute(() =>
  createReceiver({ secret: process.env['STABLEHOOKS_SECRET'] ?? '', handlers }),
);
