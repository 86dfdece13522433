/** The App Router, on Node. */

import { createContractReceiver } from 'stablehooks-kit/conformance';
import { toNextRoute } from 'stablehooks/next';

export const { POST } = toNextRoute(createContractReceiver());
