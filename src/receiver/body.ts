import { type Awaitable, isPromise } from '../core/awaitable.js';
import type { Deadlines } from '../core/deadlines.js';
import { RequestError } from '../core/errors.js';
import type { WebhookRequest } from './receiver.js';

interface BodySettings {
  readonly maxBodyBytes: number;
  readonly bodyTimeoutMs: number;
  /** The time limits of bodies, each of `bodyTimeoutMs`. */
  readonly deadlines: Deadlines;
}

/** Reads the body in time. @throws {RequestError} `ERR_BODY_TIMEOUT`, and the errors of the adapter. */
export function readBody(request: WebhookRequest, settings: BodySettings): Awaitable<Uint8Array> {
  const reading = request.body(settings.maxBodyBytes);
  return isPromise(reading) ? inTime(reading, request, settings) : reading;
}

function inTime(
  reading: Promise<Uint8Array>,
  request: WebhookRequest,
  { bodyTimeoutMs, deadlines }: BodySettings,
): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const wait = deadlines.begin(() => {
      reject(
        new RequestError(
          'ERR_BODY_TIMEOUT',
          `The body did not arrive within ${bodyTimeoutMs} ms. Raise bodyTimeoutMs if the sender is genuine.`,
        ),
      );
      // The delivery is answered, and an error thrown in a timer would end the process.
      try {
        request.cancelBody?.();
      } catch {}
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
