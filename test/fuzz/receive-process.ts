/** A process that sends inputs to `receive` when it is asked to. */
import { fuzzReceive } from './receive.js';
import { RECEIVE_FAULTS } from './receive-faults.js';

export interface Span {
  readonly seed: number;
  readonly numRuns: number;
  readonly fault: keyof typeof RECEIVE_FAULTS | undefined;
}

// Half of the inputs end with an error, and frames take longer than the rest of it. The message stays in the stack.
Error.stackTraceLimit = 1;

process.on('message', async ({ fault, ...span }: Span) => {
  process.send?.(await fuzzReceive(span, fault && RECEIVE_FAULTS[fault]));
});
