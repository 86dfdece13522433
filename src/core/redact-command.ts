/** Removes the command from a driver's error, because the command contains the payload. */
export async function redactCommand<Value>(answer: Promise<Value>): Promise<Value> {
  try {
    return await answer;
  } catch (error) {
    throw withoutCommand(error);
  }
}

/** ioredis adds the command as a property, and Upstash adds it to the message. */
function withoutCommand(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const [message = ''] = error.message.split(', command was:');
  if (message === error.message && !('command' in error)) return error;
  return Object.assign(new Error(message), { name: error.name });
}
