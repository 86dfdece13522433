/** Errors of drivers, as they may be logged. */

/** Waits for a driver's answer; what it rejects with no longer holds the command. */
export async function redactCommand<Value>(answer: Promise<Value>): Promise<Value> {
  try {
    return await answer;
  } catch (error) {
    throw withoutCommand(error);
  }
}

/**
 * The error as it may be logged: ioredis hangs the command on it, and Upstash's client writes it into the message,
 * the event's payload included.
 */
function withoutCommand(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const [message = ''] = error.message.split(', command was:');
  if (message === error.message && !('command' in error)) return error;
  return Object.assign(new Error(message), { name: error.name });
}
