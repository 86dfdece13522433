/** Errors of drivers, as they may be logged. */

/**
 * The error as it may be logged: ioredis hangs the command on it, and Upstash's client writes it into the message,
 * the event's payload included.
 */
export function withoutCommand(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const [message = ''] = error.message.split(', command was:');
  if (message === error.message && !('command' in error)) return error;
  return Object.assign(new Error(message), { name: error.name });
}
