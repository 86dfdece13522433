import type { Server } from 'node:http';
import { createReceiver, type Outcome, type Receiver, type ReceiverOptions } from 'stablehooks';
import { exampleEvent, signedRequest } from 'stablehooks/testing';
import { expect } from 'vitest';
import { listen } from './listening.js';

export const secret = 'whsec_wiring';

export function createObserved(options: Partial<ReceiverOptions> = {}): {
  readonly receiver: Receiver;
  readonly outcomes: readonly Outcome[];
} {
  const outcomes: Outcome[] = [];
  const receiver = createReceiver({
    secret,
    handlers: { 'transfer.settled': () => undefined },
    onOutcome: (outcome) => void outcomes.push(outcome),
    logger: { warn: () => undefined, error: () => undefined },
    ...options,
  });
  return { receiver, outcomes };
}

/** Starts the server, sends it one signed event at `/hooks`, and closes it. */
export async function deliverTo(server: Server, contentType = 'application/json'): Promise<Response> {
  const { url, close } = await listen(server);
  try {
    const signed = await signedRequest(exampleEvent('transfer.settled'), { secret });
    const headers = { ...signed.headers, 'content-type': contentType };
    const reply = await fetch(url, { method: 'POST', headers, body: signed.body });
    return new Response(await reply.text(), reply);
  } finally {
    await close();
  }
}

/** Expects 500 `ERR_BODY_UNAVAILABLE` and one outcome. Returns the message of its error. */
export async function expectUnavailable(reply: Response, outcomes: readonly Outcome[]): Promise<string> {
  expect(reply.status).toBe(500);
  expect(await reply.json()).toMatchObject({ code: 'ERR_BODY_UNAVAILABLE', outcome: 'failed' });
  expect(outcomes).toHaveLength(1);
  return outcomes[0]?.error?.message ?? '';
}
