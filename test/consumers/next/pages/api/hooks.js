/** The Pages Router. */

import { toNextApiRoute } from 'stablehooks/next';
import { createContractReceiver } from 'stablehooks-kit/conformance';

export const config = { api: { bodyParser: false } };

export default toNextApiRoute(createContractReceiver());
