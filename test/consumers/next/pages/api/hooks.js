/** The Pages Router. */

import { toNextApiRoute } from 'stablehooks/next';
import { createContractReceiver } from '../../contract-receiver.js';

export const config = { api: { bodyParser: false } };

export default toNextApiRoute(createContractReceiver());
