/** Behind an HTTP API: POST /hooks. */
import { toLambdaHandler } from 'stablehooks/lambda';
import { receiver } from './receiver.js';

export const handler = toLambdaHandler(receiver);
