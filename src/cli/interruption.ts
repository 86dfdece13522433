/** Interruption: Ctrl-C, and output that nobody reads any more (`| head`). */
import { EXIT } from './failure.js';

const controller = new AbortController();

/** Aborts when the command should finish what is under way, say where it stands, and end. */
export const interruption: AbortSignal = controller.signal;

/** Starts to listen. A second Ctrl-C ends the process where it stands. */
export function watchInterruption(): void {
  const interrupt = () => {
    if (interruption.aborted) process.exit(EXIT.interrupted);
    controller.abort(new Error('interrupted'));
  };
  process.on('SIGINT', interrupt);
  process.on('SIGTERM', interrupt);
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE') throw error;
      if (!interruption.aborted) controller.abort(error);
    });
  }
}

/** How an interrupted command ends: a closed pipe is no error. */
export function interruptedExit(): typeof EXIT.interrupted | typeof EXIT.good {
  const { reason } = interruption;
  return reason instanceof Error && 'code' in reason && reason.code === 'EPIPE'
    ? EXIT.good
    : EXIT.interrupted;
}
