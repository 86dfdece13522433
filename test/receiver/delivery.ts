/** Deliveries as an adapter hands them in, for tests of the receiver alone. */
import { SIGNATURE_HEADER, sign, type UnknownEvent, type WebhookRequest } from 'stablehooks';

export const secret = 'whsec_receiver_test';

let count = 0;

/** An event with an id of its own. */
export function anEvent(overrides: Partial<UnknownEvent> = {}): UnknownEvent {
  count += 1;
  return {
    id: `evt_${count}`,
    type: 'transfer.settled',
    created_at: '2026-01-02T03:04:05Z',
    payload: { amount: '10.50', memo: 'planted payload' },
    ...overrides,
  };
}

export const bytesOf = (value: unknown) =>
  new TextEncoder().encode(typeof value === 'string' ? value : JSON.stringify(value));

/** A delivery of these bytes (or this event), signed unless the headers say otherwise. */
export async function delivery(
  value: unknown,
  { method = 'POST', headers = {} }: { method?: string; headers?: Record<string, string | undefined> } = {},
): Promise<WebhookRequest & { reads: number }> {
  const body = value instanceof Uint8Array ? value : bytesOf(value);
  const given = { [SIGNATURE_HEADER]: await sign(body, { secret }), ...headers };
  const lower = new Map(Object.entries(given).map(([name, text]) => [name.toLowerCase(), text]));
  const request = {
    method,
    reads: 0,
    header: (name: string) => lower.get(name.toLowerCase()),
    body: async () => {
      request.reads += 1;
      return body;
    },
  };
  return request;
}

/** A promise and the function that resolves it: how tests wait for each other without sleeping. */
export function deferred<Value = void>() {
  let resolve: (value: Value) => void = () => undefined;
  const promise = new Promise<Value>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}
