import { sign, type UnknownEvent } from 'stablehooks';
import { type Delivered, deliver } from './deliver.js';
import type { Settings } from './settings.js';

export interface SentDelivery extends Delivered {
  readonly at: Date;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
}

export type Sender = Awaited<ReturnType<typeof createSender>>;

/** Ctrl-C does not abort a delivery that has begun. */
export async function createSender(url: string, settings: Settings, timeoutMs: number) {
  const secret = await settings.secret();
  const { header, encoding, prefix } = settings.signature;

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

/** Only listed events have the field `delivered`, so a delivery must not contain it. */
function toBytes({ delivered: _, ...event }: UnknownEvent): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(event));
}
