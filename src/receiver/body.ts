import type { Deadlines } from '#deadlines';
import { type Awaitable, isPromise } from '../core/awaitable.js';
import { StablehooksError } from '../core/errors.js';
import type { WebhookRequest } from './request.js';

interface BodySettings {
  readonly maxBodyBytes: number;
  readonly bodyTimeoutMs: number;
  /** The time limits of bodies, each of `bodyTimeoutMs`. */
  readonly deadlines: Deadlines;
}

/** Reads the body within its time limit. @throws {StablehooksError} `ERR_BODY_TIMEOUT`, and the errors of the adapter. */
export function readBodyInTime(
  request: WebhookRequest,
  { maxBodyBytes, bodyTimeoutMs, deadlines }: BodySettings,
): Awaitable<Uint8Array> {
  const reading = request.body(maxBodyBytes);
  if (!isPromise(reading)) return reading;
  return new Promise((resolve, reject) => {
    const wait = deadlines.begin(() => {
      const error = new StablehooksError(
        'ERR_BODY_TIMEOUT',
        `The body did not arrive within ${bodyTimeoutMs} ms. Raise bodyTimeoutMs if the sender is genuine.`,
      );
      try {
        request.cancelBody?.();
        reject(error);
      } catch (thrown) {
        // The adapter may know why the body never ends, such as a parser in front that consumed it.
        reject(thrown instanceof StablehooksError ? thrown : error);
      }
    });
    reading.then(
      (body) => {
        deadlines.end(wait);
        resolve(body);
      },
      (error: unknown) => {
        deadlines.end(wait);
        reject(error);
      },
    );
  });
}
