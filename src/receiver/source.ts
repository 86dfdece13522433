import { ConfigError } from '../core/errors.js';
import { partsOf, type ReceiverParts } from './parts.js';
import type { Receiver } from './receiver.js';

/**
 * A receiver, or a function that creates one on first use. If you pass a function, a build such as `next build` needs
 * neither secrets nor connections.
 */
export type ReceiverSource = Receiver | (() => Receiver);

/** If the function that creates the receiver fails, the next use calls it again. */
export function toReceiver(where: string, source: ReceiverSource): () => Receiver {
  if (typeof source !== 'function') {
    partsOf(where, source);
    return () => source;
  }
  let made: Receiver | undefined;
  return () => {
    made ??= make(where, source);
    return made;
  };
}

export function toParts(where: string, source: ReceiverSource): () => ReceiverParts {
  const receiver = toReceiver(where, source);
  return () => partsOf(where, receiver());
}

function make(where: string, source: () => Receiver): Receiver {
  try {
    const receiver = source();
    partsOf(where, receiver);
    return receiver;
  } catch (cause) {
    if (cause instanceof ConfigError) throw cause;
    throw new ConfigError(`${where}: the function that creates the receiver failed; see the cause.`, {
      cause,
    });
  }
}
