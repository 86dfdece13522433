/** A process that runs inputs when it is asked to, so that an input that never ends can be recognized from outside. */
import { fuzzReceive } from './receive.js';
import { RECEIVE_FAULTS } from './receive-faults.js';
import type { Span } from './receive-spans.js';

// Half of the inputs end with an error, and frames take longer than the rest of it. The message stays in the stack.
Error.stackTraceLimit = 1;

process.on('message', async ({ fault, ...span }: Span) => {
  process.send?.(await fuzzReceive({ ...span, ...RECEIVE_FAULTS[fault ?? ''] }));
});
