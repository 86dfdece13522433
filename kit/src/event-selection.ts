/** Which events of the list a command means. */

import type { Command } from 'commander';
import type { UnknownEvent } from 'stablehooks';
import type { Client } from 'stablehooks/client';
import { type Moment, parseMoment, toDate } from './duration.js';
import { remarkOnType } from './event-type.js';
import { usageError } from './failure.js';
import { parseCount } from './flag-value.js';
import type { Printer } from './printer.js';
import { toPlain } from './table.js';

/** The flags that select. */
export interface SelectionFlags {
  readonly type?: string;
  readonly since?: Moment;
  readonly until?: Moment;
  readonly limit: number;
}

/** Adds them. */
export function addSelectionFlags(command: Command, { limit }: { readonly limit: number }): Command {
  return command
    .option('--type <type>', 'only events of this type')
    .option('--since <time>', 'only events created since: 2h, 7d, 2026-01-31T12:00:00Z', parseMoment)
    .option('--until <time>', 'only events created until then', parseMoment)
    .option('--limit <number>', 'how many events to ask the list for', parseCount, limit);
}

/** What selecting needs beside the flags. */
export interface SelectionContext {
  readonly client: Client;
  readonly printer: Printer;
  readonly signal: AbortSignal;
}

/**
 * Asks the list and keeps what the flags mean, oldest first, each id once.
 *
 * The list has no order and no cursor that the service promises, so a full answer is remarked upon.
 */
export async function selectEvents(
  { type, since, until, limit }: SelectionFlags,
  { client, printer, signal }: SelectionContext,
): Promise<readonly UnknownEvent[]> {
  if (type !== undefined) remarkOnType(type, { printer });
  const page = await client.events.listWithProblems({ type, limit, signal });
  if (page.size >= limit) {
    printer.note(
      `The list answered ${page.size} events, as many as were asked for: there may be more. Raise --limit.`,
    );
  }
  if (page.problems.length > 0)
    printer.note(`${page.problems.length} elements of the list are no events, and are left out.`);
  const now = Date.now();
  const from = since === undefined ? -Infinity : toDate(since, { now }).getTime();
  const to = until === undefined ? Infinity : toDate(until, { now }).getTime();
  const meant = page.events.filter(
    ({ created_at }) => Date.parse(created_at) >= from && Date.parse(created_at) <= to,
  );
  return [...new Map(meant.map((event) => [event.id, event])).values()].sort(byAge);
}

function byAge(a: UnknownEvent, b: UnknownEvent): number {
  return Date.parse(a.created_at) - Date.parse(b.created_at) || (a.id < b.id ? -1 : 1);
}

/**
 * The events of these ids, in the order of their creation.
 *
 * @throws {CommandError} exit 2 when one is not among the listed.
 */
export function pickEvents(events: readonly UnknownEvent[], ids: readonly string[]): readonly UnknownEvent[] {
  const missing = ids.filter((id) => !events.some((event) => event.id === id));
  if (missing.length > 0) {
    throw usageError(
      `Not among the ${events.length} events that the list answered: ${toPlain(missing.join(', '))}. Raise --limit, or check the id.`,
    );
  }
  return events.filter(({ id }) => ids.includes(id));
}
