/** `stablehooks/testing`: example events and signed deliveries, for an app's own tests. */
export type { EventEnvelope } from '../core/events.js';
export { exampleEvent } from './example-event.js';
export { type SignedRequest, type SignedRequestOptions, signedRequest } from './signed-request.js';
