/** POST /api/hooks by the Pages Router. */
import { toNextApiRoute } from 'stablehooks/next';
import { receiver } from '../../lib/receiver';

// Next reads this line without running it, so it cannot be imported. Without it, Next's parser reads the signed bytes.
export const config = { api: { bodyParser: false } };

export default toNextApiRoute(receiver);
