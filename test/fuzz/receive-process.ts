/** A process that runs inputs when it is asked to, so that an input that never ends can be recognized from outside. */
import { fuzzReceive } from './receive.js';

// Half of the inputs end with an error, and frames take longer than the rest of it. The message stays in the stack.
Error.stackTraceLimit = 1;

process.on('message', async (span: { readonly seed: number; readonly from: number; readonly to: number }) => {
  process.send?.(await fuzzReceive(span));
});
