/** POST /hooks: the deliveries. */
import { after } from 'next/server';
import { toNextRoute } from 'stablehooks/next';
import { receiver } from '../../lib/receiver';

export const { POST } = toNextRoute(receiver, { after });
