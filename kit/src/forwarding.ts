/** Forwarding: a receiver whose handlers send each event on to an endpoint, signed, until it is taken. */
import { createReceiver, EVENT_TYPES, type EventType, type Receiver, type WebhookEvent } from 'stablehooks';
import type { Inbox } from 'stablehooks/conformance';
import { type Answer, describeAnswer, isDelivered } from './delivery.js';
import type { DeliveryRow } from './delivery-report.js';
import type { Settings } from './settings.js';
import { createSender } from './signed-delivery.js';

/** How events are forwarded. */
interface ForwardingOptions {
  readonly settings: Settings;
  readonly inbox: Inbox;
  readonly timeoutMs: number;
  /** The types that are sent on; the others are recorded only. */
  readonly types?: readonly EventType[];
  /** Events created before this time (epoch ms) are recorded only. */
  readonly startMs?: number;
  /** Told of each attempt. */
  readonly onAttempt: (row: DeliveryRow) => void;
}

/** Makes the receiver. What is not answered 2xx is failed in the inbox, and run again when it is due. */
export async function createForwarder(url: string, options: ForwardingOptions): Promise<Receiver> {
  const { settings, inbox, timeoutMs, types = EVENT_TYPES, startMs = 0, onAttempt } = options;
  const sender = await createSender(url, { settings, timeoutMs });

  const forward = async (event: WebhookEvent) => {
    if (Date.parse(event.created_at) < startMs) return;
    const answer: Answer = await sender.send(event);
    onAttempt({ event, answer });
    if (!isDelivered(answer)) throw new Error(`${url} answered ${describeAnswer(answer)}`);
  };
  return createReceiver({
    secret: await settings.secret(),
    inbox,
    handlers: Object.fromEntries(types.map((type) => [type, forward])),
    // The endpoint's own time limit ends an attempt; the handler's must not come first.
    handlerTimeoutMs: timeoutMs + 5_000,
    // Short: after a crash the events that it held wait no longer than this.
    leaseMs: timeoutMs + 10_000,
    onOutcome: () => undefined,
  });
}
