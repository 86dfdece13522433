/** The sandbox's feed as lines: what happened, to what, and how it ended. */

import { readOutcome } from './delivery.js';
import type { Printer } from './printer.js';
import type { Attempt, FeedEntry } from './sandbox/index.js';
import { toPlain } from './table.js';

/** Prints one entry. */
export function printFeed(printer: Printer, entry: FeedEntry): void {
  printer.print({ text: toPlain(toLine(entry)), data: entry });
}

function toLine({ at, kind, data }: FeedEntry): string {
  const time = at.slice(11, 23);
  if (kind === 'attempt.made') return `${time}  ${describe(data as Attempt)}`;
  const about = data as Readonly<Record<string, unknown>> | null;
  const words = ['type', 'eventId', 'id', 'kind', 'state', 'url'].map((name) => about?.[name]);
  return `${time}  ${[kind, ...words.filter((word) => typeof word === 'string')].join('  ')}`;
}

function describe({ eventId, number, request, response, error, durationMs, faults }: Attempt): string {
  const { outcome, code } = readOutcome(response?.body ?? '');
  const ended =
    response === null ? (error ?? 'no answer') : [response.status, code ?? outcome].filter(Boolean).join(' ');
  const struck = faults.length > 0 ? `  [${faults.join(', ')}]` : '';
  return `attempt ${number}  ${eventId}  ${request.url}  ${ended}  ${durationMs} ms${struck}`;
}
