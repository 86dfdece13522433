/** POST /hooks: receives deliveries. */
import { toNextRoute } from 'stablehooks/next';
import { receiver } from '../../lib/receiver';

export const { POST } = toNextRoute(receiver);
