/** Awaits a driver's result. If it fails, removes the command, which contains the payload, from the error. */
export async function redactCommand<Value>(answer: Promise<Value>): Promise<Value> {
  try {
    return await answer;
  } catch (error) {
    throw withoutCommand(error);
  }
}

/** ioredis adds the command as a property of the error, and the client of Upstash adds it to the message. */
function withoutCommand(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const [message = ''] = error.message.split(', command was:');
  if (message === error.message && !('command' in error)) return error;
  return Object.assign(new Error(message), { name: error.name });
}
