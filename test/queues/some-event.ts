import { randomUUID } from 'node:crypto';
import { memoryInbox, type UnknownEvent } from 'stablehooks';

export function clockedInbox() {
  const clock = { now: Date.parse('2026-01-02T03:04:05Z') };
  const memory = memoryInbox({ runtime: { now: () => clock.now } });
  return { clock, inbox: { ...memory, durable: true } };
}

export function someEvent(overrides: Partial<UnknownEvent> = {}): UnknownEvent {
  return {
    id: `evt:${randomUUID()}`,
    type: 'transfer.settled',
    created_at: '2026-01-02T03:04:05.678Z',
    payload: { amount: '10.50' },
    ...overrides,
  };
}
