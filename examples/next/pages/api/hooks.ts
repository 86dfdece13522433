/** POST /api/hooks by the Pages Router. */
import { toNextApiRoute } from 'stablehooks/next';
import { receiver } from '../../lib/receiver';

// Next reads this line without running it, so it cannot be imported. Its parser would take the signed bytes away.
export const config = { api: { bodyParser: false } };

export default toNextApiRoute(receiver);
