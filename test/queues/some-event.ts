import { randomUUID } from 'node:crypto';
import { memoryInbox, type UnknownEvent } from 'stablehooks';

/** The JSON of an event whose numbers and key order do not survive as values. */
export const EXACT_JSON =
  '{"payload":{"infinite":1e999,"zero":-0,"big":12345678901234567890,"10":"ten","2":"two"},"id":"evt:exact","type":"transfer.settled","created_at":"2026-01-02T03:04:05.678Z"}';

/** A durable inbox with a clock that the test moves, and the JSON of each claim. */
export function exactInbox() {
  const clock = { now: Date.parse('2026-01-02T03:04:05Z') };
  const memory = memoryInbox({ runtime: { now: () => clock.now } });
  const claimed: (string | undefined)[] = [];
  const claim: typeof memory.claim = (event, options) => {
    claimed.push(options.json);
    return memory.claim(event, options);
  };
  return { clock, claimed, inbox: { ...memory, durable: true, claim } };
}

/** An event with a random id. */
export function someEvent(overrides: Partial<UnknownEvent> = {}): UnknownEvent {
  return {
    id: `evt:${randomUUID()}`,
    type: 'transfer.settled',
    created_at: '2026-01-02T03:04:05.678Z',
    payload: { amount: '10.50' },
    ...overrides,
  };
}
