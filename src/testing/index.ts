/** `stablehooks/testing`: example events and signed deliveries, for an app's own tests. */
export { exampleEvent } from './example-event.js';
export { type SignedRequest, type SignedRequestOptions, signedRequest } from './signed-request.js';
