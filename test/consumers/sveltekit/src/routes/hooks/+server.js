/** One endpoint for every method. */

import { createContractReceiver } from 'stablehooks-kit/conformance';
import { toFetchHandler } from 'stablehooks/fetch';

const handler = toFetchHandler(createContractReceiver());

/** @type {import('./$types').RequestHandler} */
export const fallback = ({ request }) => handler(request);
