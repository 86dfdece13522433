/** A receiver, or a function that creates one, as adapters and pollers accept it. */
import { ConfigError } from '../core/errors.js';
import { type Outcome, toFailure } from './outcome.js';
import type { Receiver } from './receiver.js';
import { logOutcome } from './report.js';
import type { WebhookRequest } from './request.js';

/**
 * A receiver, or a function that creates it at the first use. With a function, a build (such as `next build`) needs
 * neither secrets nor connections.
 */
export type ReceiverSource = Receiver | (() => Receiver);

/** Accepts one delivery. Its promise never rejects. */
export type Receive = (request: WebhookRequest) => Promise<Outcome>;

/** A function given as `source` is called at the first use, and its receiver is kept. A failed call is repeated. */
export function toReceiver(where: string, source: ReceiverSource): () => Receiver {
  if (isReceiver(source)) return () => source;
  if (typeof source !== 'function') {
    throw new ConfigError(
      `${where}: \`receiver\` must be a receiver made by createReceiver, or a function that returns one.`,
    );
  }
  let made: Receiver | undefined;
  return () => {
    made ??= make(where, source);
    return made;
  };
}

/**
 * A function given as `source` is called at the first delivery. If it fails, the outcome is `failed` with
 * `ERR_CONFIG_INVALID`, which is logged, and the next delivery calls it again.
 */
export function toReceive(where: string, source: ReceiverSource): Receive {
  if (isReceiver(source)) return source.receive.bind(source);
  const receiver = toReceiver(where, source);
  return (request) => {
    try {
      return receiver().receive(request);
    } catch (error) {
      const outcome: Outcome = { origin: 'push', ...toFailure(error) };
      logOutcome(outcome, request.logger);
      return Promise.resolve(outcome);
    }
  };
}

function make(where: string, source: () => Receiver): Receiver {
  let receiver: unknown;
  try {
    receiver = source();
  } catch (cause) {
    if (cause instanceof ConfigError) throw cause;
    throw new ConfigError(`${where}: the function that makes the receiver failed; see the cause.`, { cause });
  }
  if (isReceiver(receiver)) return receiver;
  throw new ConfigError(`${where}: the function must return a receiver made by createReceiver.`);
}

function isReceiver(value: unknown): value is Receiver {
  const { receive, accept }: Partial<Receiver> = Object(value);
  return typeof receive === 'function' && typeof accept === 'function';
}
