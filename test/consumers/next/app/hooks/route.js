/** The App Router, on Node. */

import { toNextRoute } from 'stablehooks/next';
import { createContractReceiver } from '../../contract-receiver.js';

export const { POST } = toNextRoute(createContractReceiver());
