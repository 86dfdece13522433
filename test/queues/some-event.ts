import { randomUUID } from 'node:crypto';
import type { UnknownEvent } from 'stablehooks';

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
