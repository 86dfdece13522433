/** POST /hooks, behind an HTTP API. */
import { toLambdaHandler } from 'stablehooks/lambda';
import { receiver } from './receiver.js';

export const handler = toLambdaHandler(receiver);
