/** Sending an event to an endpoint as the service sends it: compact JSON, signed. */

import type { UnknownEvent } from 'stablehooks';
import { sign } from 'stablehooks';
import { type Answer, deliver } from './delivery.js';
import type { Settings } from './settings.js';

/** Sends events to one endpoint. */
export interface Sender {
  send(event: UnknownEvent): Promise<Answer>;
  /** Sends a body under the signature of another. */
  sendBytes(
    body: Uint8Array,
    signed: { readonly signed: Uint8Array; readonly secret?: string },
  ): Promise<Answer>;
}

/** Makes a sender. */
export async function createSender(
  url: string,
  {
    settings,
    timeoutMs,
    signal,
  }: { readonly settings: Settings; readonly timeoutMs: number; readonly signal?: AbortSignal },
): Promise<Sender> {
  const own = await settings.secret();
  const { header, encoding, prefix } = settings.signature;

  const sendBytes: Sender['sendBytes'] = async (body, { signed, secret = own }) => {
    const headers = {
      'content-type': 'application/json',
      [header]: await sign(signed, { secret, encoding, prefix }),
    };
    const { answer } = await deliver(url, { headers, body, timeoutMs, signal });
    return answer;
  };
  return {
    sendBytes,
    send(event) {
      const body = toBytes(event);
      return sendBytes(body, { signed: body });
    },
  };
}

/** The body of a delivery: the event without `delivered`, which only the list knows. */
export function toBytes({ delivered: _, ...event }: UnknownEvent): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(event));
}
