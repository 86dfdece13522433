/** One endpoint for every method. */

import { toFetchHandler } from 'stablehooks/fetch';
import { createContractReceiver } from '../../../contract-receiver.js';

const handler = toFetchHandler(createContractReceiver());

/** @type {import('./$types').RequestHandler} */
export const fallback = ({ request }) => handler(request);
