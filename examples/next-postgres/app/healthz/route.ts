/** GET /healthz: 200 if everything is fine, otherwise 503 with the names of the failed checks. */
import { toHealthRoutes } from 'stablehooks/health';
import { inbox } from '../../lib/receiver';

export const dynamic = 'force-dynamic';
export const GET = toHealthRoutes(inbox, { requirePoll: true }).health;
