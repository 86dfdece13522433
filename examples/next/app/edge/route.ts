/**
 * POST /edge by the App Router, on the Edge runtime, over WebCrypto.
 *
 * Postgres cannot be reached from here, so this receiver has an inbox in memory. In production, give all receivers of
 * the app one inbox that the Edge runtime can reach, such as redisInbox over Upstash.
 */
import { createReceiver } from 'stablehooks';
import { toNextRoute } from 'stablehooks/next';
import { handlers, payloads, secret } from '../../lib/handlers';

export const runtime = 'edge';

export const { POST } = toNextRoute(createReceiver({ secret, payloads, handlers }));
