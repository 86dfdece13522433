/** Interruption: Ctrl-C, and output that nobody reads any more. */
import { EXIT, type ExitCode } from './exit.js';

const FINISHING = 'Finishing what is under way. Ctrl-C again ends it at once.\n';
const PATIENCE_MS = 300;

const controller = new AbortController();

/** Aborts when the command should finish what is under way, say where it stands, and end. */
export const interruption: AbortSignal = controller.signal;

/** Starts to listen. A second Ctrl-C ends the process where it stands. */
export function watchInterruption(): void {
  const interrupt = () => {
    if (interruption.aborted) process.exit(EXIT.interrupted);
    controller.abort(new Error('interrupted'));
    // Only where it takes a while, so that nobody wonders and nothing else is held up.
    setTimeout(() => process.stderr.write(FINISHING), PATIENCE_MS).unref();
  };
  process.on('SIGINT', interrupt);
  process.on('SIGTERM', interrupt);
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (!interruption.aborted) controller.abort(error);
    });
  }
}

/** Whether this was thrown because of the interruption, and not for a reason of its own. */
export function isInterruption(error: unknown): boolean {
  if (!interruption.aborted) return false;
  return error === interruption.reason || (error instanceof Error && error.name === 'AbortError');
}

/** How an interrupted command ends: a closed pipe is no error, a disk that takes no more output is one. */
export function interruptedExit(): ExitCode {
  const { reason } = interruption;
  if (!(reason instanceof Error && 'code' in reason)) return EXIT.interrupted;
  return reason.code === 'EPIPE' ? EXIT.good : EXIT.unreachable;
}
