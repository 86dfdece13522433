import { sign, type UnknownEvent } from 'stablehooks';
import { type Delivered, deliver } from './deliver.js';
import type { Settings } from './settings.js';

/** A delivery that was sent, byte for byte. */
export interface SentDelivery extends Delivered {
  readonly at: Date;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
}

export type Sender = Awaited<ReturnType<typeof createSender>>;

/** Creates a sender that signs as the settings say. Ctrl-C does not abort a delivery that has begun. */
export async function createSender(url: string, settings: Settings, timeoutMs: number) {
  const secret = await settings.secret();
  const { header, encoding, prefix } = settings.signature;

  /** Sends a body with its signature, and returns the sent and received bytes. */
  async function sendKept(body: Uint8Array): Promise<SentDelivery> {
    const headers = {
      'content-type': 'application/json',
      [header]: await sign(body, { secret, encoding, prefix }),
    };
    const at = new Date();
    return { at, url, headers, body, ...(await deliver(url, { headers, body, timeoutMs })) };
  }
  return { sendKept, send: async (event: UnknownEvent) => (await sendKept(toBytes(event))).answer };
}

/** Returns the body of a delivery: compact JSON without `delivered`, a field that only events in the list have. */
function toBytes({ delivered: _, ...event }: UnknownEvent): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(event));
}
