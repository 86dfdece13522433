/** Recording: events go into the inbox without being run, a page at a time, and unknown types are parked. */
import { isKnownEvent, type UnknownEvent } from '../core/events.js';
import type { Origin, RecordResult } from '../core/inbox.js';
import { reach } from './dependency.js';
import { notify } from './notify.js';
import type { ReceiverRules } from './options.js';

/** How events are recorded. */
export interface Recording {
  /** When those of known types are due, should nobody run them before. */
  readonly dueInMs: number;
  readonly origin: Origin;
}

/** Records the events and answers for each, in order; see `Receiver.record`. */
export async function record<Tx>(
  events: readonly UnknownEvent[],
  { dueInMs, origin, rules }: Recording & { readonly rules: Pick<ReceiverRules<Tx>, 'inbox' | 'onUnknown'> },
): Promise<readonly RecordResult[]> {
  const results = new Map<UnknownEvent, RecordResult>();
  const record = async (page: readonly UnknownEvent[], due: number | null) => {
    if (page.length === 0) return;
    const answers = await reach('ERR_INBOX_FAILED', rules.inbox.record(page, { dueInMs: due, origin }));
    for (const [index, event] of page.entries()) results.set(event, answers[index] ?? 'received');
  };
  await record(events.filter(isKnownEvent), dueInMs);
  const unknown = events.filter((event) => !isKnownEvent(event));
  await record(unknown, null);
  for (const event of unknown) {
    if (results.get(event) === 'new') notify('onUnknown', { observer: rules.onUnknown, value: event });
  }
  return events.map((event) => results.get(event) ?? 'received');
}
