/** The `Queue` port: hands an event to workers elsewhere. */
import type { UnknownEvent } from './events.js';

/** A durable queue in front of workers that enter by `receiver.handle`. */
export interface Queue {
  /**
   * Puts the event into the queue and resolves once it is durably there.
   *
   * Keyed by `event.id`: an event that is already waiting or running is not put in twice. One that the
   * queue has finished with may be put in again.
   */
  enqueue(event: UnknownEvent): Promise<void>;
}
