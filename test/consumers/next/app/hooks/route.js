/** The App Router, on Node. */

import { createContractReceiver } from 'stablehooks/conformance';
import { toNextRoute } from 'stablehooks/next';

export const { POST } = toNextRoute(createContractReceiver());
