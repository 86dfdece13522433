/** Awaits a driver's result. If the driver rejects, the error's command is removed, because it contains the payload. */
export async function redactCommand<Value>(answer: Promise<Value>): Promise<Value> {
  try {
    return await answer;
  } catch (error) {
    throw withoutCommand(error);
  }
}

/** Copies an error without its command. ioredis adds the command as a property; Upstash adds it to the message. */
function withoutCommand(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const [message = ''] = error.message.split(', command was:');
  if (message === error.message && !('command' in error)) return error;
  return Object.assign(new Error(message), { name: error.name });
}
