/** Recording: events go into the inbox without being run, a page at a time, and unknown types are parked. */
import { isKnownEvent, type UnknownEvent } from '../core/events.js';
import type { Admission, Source } from '../core/inbox.js';
import { reach } from './dependency.js';
import { notify } from './notify.js';
import type { ReceiverRules } from './options.js';

/** How events are recorded. */
export interface Recording {
  /** When those of known types are due, should nobody run them before. */
  readonly dueInMs: number;
  readonly source: Source;
}

/** Records the events and answers for each, in order; see `Receiver.record`. */
export async function record<Tx>(
  events: readonly UnknownEvent[],
  { dueInMs, source, rules }: Recording & { readonly rules: Pick<ReceiverRules<Tx>, 'inbox' | 'onUnknown'> },
): Promise<readonly Admission[]> {
  const admissions = new Map<UnknownEvent, Admission>();
  const admit = async (page: readonly UnknownEvent[], due: number | null) => {
    if (page.length === 0) return;
    const answers = await reach('ERR_INBOX_FAILED', rules.inbox.admit(page, { dueInMs: due, source }));
    for (const [index, event] of page.entries()) admissions.set(event, answers[index] ?? 'received');
  };
  await admit(events.filter(isKnownEvent), dueInMs);
  const unknown = events.filter((event) => !isKnownEvent(event));
  await admit(unknown, null);
  for (const event of unknown) {
    if (admissions.get(event) === 'new') notify('onUnknown', { observer: rules.onUnknown, value: event });
  }
  return events.map((event) => admissions.get(event) ?? 'received');
}
