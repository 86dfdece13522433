/** The App Router, on Node. */

import { toNextRoute } from 'stablehooks/next';
import { createContractReceiver } from 'stablehooks-kit/conformance';

export const { POST } = toNextRoute(createContractReceiver());
