/** Reporting deliveries: a line for each, and a summary of many. */
import type { UnknownEvent } from 'stablehooks';
import { type Answer, describeAnswer, isDelivered } from './delivery.js';
import type { Printer } from './printer.js';
import { toPlain } from './table.js';

/** One delivery, and how it went. */
export interface DeliveryRow {
  readonly event: UnknownEvent;
  readonly answer: Answer;
}

/** Prints one line. */
export function printRow(printer: Printer, { event, answer }: DeliveryRow): void {
  const { good, bad, faint } = printer.paint;
  const paint = isDelivered(answer) ? good : bad;
  const words = toPlain(describeAnswer(answer));
  printer.print({
    text: `${toPlain(event.type)}  ${toPlain(event.id)}  ${paint(words)}  ${faint(`${answer.elapsedMs} ms`)}`,
    data: { id: event.id, type: event.type, ...toData(answer) },
  });
}

function toData(answer: Answer): object {
  const { kind, elapsedMs } = answer;
  if (kind === 'reply')
    return { status: answer.status, outcome: answer.outcome, code: answer.code, elapsedMs };
  return kind === 'silence' ? { error: 'silence', elapsedMs } : { error: answer.reason, elapsedMs };
}

/** How many went how, and how long they took. */
export function summarise(
  rows: readonly Pick<DeliveryRow, 'answer'>[],
  { total }: { readonly total: number },
): string {
  // Without how long a silence was: those are to be counted together.
  const words = rows.map(({ answer }) => (answer.kind === 'silence' ? 'no answer' : describeAnswer(answer)));
  const times = rows.map(({ answer }) => answer.elapsedMs).sort((a, b) => a - b);
  const at = (share: number) => times[Math.floor((times.length - 1) * share)] ?? 0;
  const kinds = countAlike(words).map(([words, count]) => `${count} × ${words}`);
  const sent = `${rows.length} of ${total} sent`;
  return rows.length === 0
    ? sent
    : `${sent}: ${toPlain(kinds.join(', '))}; median ${at(0.5)} ms, 99 % within ${at(0.99)} ms`;
}

/** How often each text is among them, in the order in which they first came. */
export function countAlike(texts: readonly string[]): readonly (readonly [text: string, count: number])[] {
  const counts = new Map<string, number>();
  for (const text of texts) counts.set(text, (counts.get(text) ?? 0) + 1);
  return [...counts];
}
