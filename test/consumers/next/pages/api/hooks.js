/** The Pages Router. */

import { createContractReceiver } from 'stablehooks-kit/conformance';
import { toNextApiRoute } from 'stablehooks/next';

export const config = { api: { bodyParser: false } };

export default toNextApiRoute(createContractReceiver());
