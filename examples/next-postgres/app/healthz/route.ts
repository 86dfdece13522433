/** GET /healthz: 200 if all is well, 503 with the names of the checks otherwise. */
import { toHealthRoutes } from 'stablehooks/health';
import { inbox } from '../../lib/receiver';

export const dynamic = 'force-dynamic';
export const GET = toHealthRoutes(inbox, { requirePoll: true }).health;
