/** The App Router, on Node. */
import { toNextRoute } from 'stablehooks/next';
import { createContractReceiver } from 'stablehooks/testing';

export const { POST } = toNextRoute(createContractReceiver());
