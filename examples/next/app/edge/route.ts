/** POST /edge by the App Router, on the Edge runtime: the same receiver, over WebCrypto. */
import { toNextRoute } from 'stablehooks/next';
import { receiver } from '../../lib/receiver';

export const runtime = 'edge';

export const { POST } = toNextRoute(receiver);
