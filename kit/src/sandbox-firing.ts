/** Firing an event in the sandbox, and waiting for the first attempt to deliver it. */
import { setTimeout as wait } from 'node:timers/promises';
import type { UnknownEvent } from 'stablehooks';
import { type Answer, readOutcome } from './delivery.js';
import type { DeliveryRow } from './delivery-report.js';
import { usageError } from './failure.js';
import type { Attempt, Delivery } from './sandbox/index.js';
import { createControl, notASandbox } from './service.js';
import type { Settings } from './settings.js';

/** How often the sandbox is asked whether an attempt was made, in ms. */
const ASK_EVERY_MS = 25;

/** Makes what fires events; the same event again is delivered again. */
export async function fireInSandbox(
  settings: Settings,
  { signal, timeoutMs }: { readonly signal: AbortSignal; readonly timeoutMs: number },
): Promise<(event: UnknownEvent) => Promise<DeliveryRow>> {
  const ask = await createControl(settings, { signal });
  const endpoints = await ask('GET', '/endpoints');
  if (!Array.isArray(endpoints)) throw notASandbox(settings.baseUrl());
  if (endpoints.length === 0) {
    throw usageError(
      'The sandbox has no endpoint to deliver to. Start it with --forward-to URL, or pass --to URL here.',
    );
  }
  const fired = new WeakMap<UnknownEvent, string>();

  async function fire({ type, payload }: UnknownEvent): Promise<string> {
    const { id } = (await ask('POST', '/events', { type, payload })) as UnknownEvent;
    return id;
  }

  /** Answers which deliveries there were before. */
  async function fireAgain(id: string): Promise<readonly string[]> {
    const about = encodeURIComponent(id);
    const before = (await ask('GET', `/deliveries?event=${about}`)) as readonly Delivery[];
    await ask('POST', `/events/${about}/redeliver`);
    return before.map((delivery) => delivery.id);
  }

  return async (event) => {
    const known = fired.get(event);
    const id = known ?? (await fire(event));
    fired.set(event, id);
    const earlier = new Set(known === undefined ? [] : await fireAgain(id));
    const row = (answer: Answer): DeliveryRow => ({ event: { ...event, id }, answer });
    for (const until = performance.now() + timeoutMs; performance.now() < until; ) {
      const attempts = (await ask('GET', `/attempts?event=${encodeURIComponent(id)}`)) as readonly Attempt[];
      const next = attempts.find(({ deliveryId }) => !earlier.has(deliveryId));
      if (next !== undefined) return row(toAnswer(next));
      await wait(ASK_EVERY_MS, undefined, { signal });
    }
    return row({ kind: 'silence', elapsedMs: timeoutMs });
  };
}

function toAnswer({ response, error, durationMs: elapsedMs }: Attempt): Answer {
  if (response === null) return { kind: 'unreachable', reason: error ?? 'no answer', elapsedMs };
  return {
    kind: 'reply',
    status: response.status,
    ...readOutcome(response.body),
    elapsedMs,
  };
}
