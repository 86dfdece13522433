/** Lets adapters and pollers accept either a receiver or a function that creates one. */
import { ConfigError } from '../core/errors.js';
import { partsOf, type ReceiverParts } from './parts.js';
import type { Receiver } from './receiver.js';

/**
 * A receiver, or a function that creates one on first use. If you pass a function, a build such as `next build` needs
 * neither secrets nor connections.
 */
export type ReceiverSource = Receiver | (() => Receiver);

/** Returns a function that returns the receiver, and creates it on first use. If that fails, the next use tries again. */
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

/** Like {@link toReceiver}, but returns the receiver's parts, because adapters pass them to `receive`. */
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
