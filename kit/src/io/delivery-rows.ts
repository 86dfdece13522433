import type { UnknownEvent } from 'stablehooks';
import { explainAnswer } from '../explain/replies.js';
import {
  describeAnswer,
  type EndpointAnswer,
  faultOf,
  isAccepted,
  isAnswerLost,
  isDelivered,
  isNotDue,
  isSignatureRefused,
  outcomeOf,
} from './answer.js';
import { countAlike, type Printer, toPlain } from './output.js';

export interface DeliveryRow {
  readonly event: UnknownEvent;
  readonly answer: EndpointAnswer;
  /** Set only if the command delivers to several endpoints. */
  readonly endpoint?: string | undefined;
}

/** Prints the expected response in green, any other 2xx in yellow and everything else in red. */
export function printRow(
  printer: Printer,
  { event, answer, endpoint }: DeliveryRow,
  expected: (answer: EndpointAnswer) => boolean = isAccepted,
): void {
  const { good, bad, doubtful, faint } = printer.paint;
  const failed = isDelivered(answer) ? doubtful : bad;
  const words = (expected(answer) ? good : failed)(toPlain(describeAnswer(answer)));
  const row = [toPlain(event.type), toPlain(event.id), words, faint(`${answer.elapsedMs} ms`)];
  if (endpoint !== undefined) row.push(faint(toPlain(endpoint)));
  printer.print({
    text: { whole: row.join('  ') },
    data: toRowData({ event, answer, endpoint }),
  });
}

export function toRowData({ event, answer, endpoint }: DeliveryRow): object {
  return { id: event.id, type: event.type, ...(endpoint !== undefined && { endpoint }), ...toData(answer) };
}

function toData(answer: EndpointAnswer): object {
  const { kind, elapsedMs } = answer;
  if (kind === 'reply')
    return {
      status: answer.status,
      outcome: answer.outcome,
      code: answer.code,
      fault: answer.fault,
      elapsedMs,
    };
  if (kind === 'unreachable') return { error: answer.reason, elapsedMs };
  return { error: kind, ...(kind === 'lost' && { fault: answer.fault }), elapsedMs };
}

/** Explains each kind of response only once. For events that are not due, {@link noteNotDue} prints the note. */
export function noteUnaccepted(printer: Printer, answers: readonly EndpointAnswer[]): void {
  const meanings = answers.flatMap((answer) => meaningOf(answer) ?? []);
  for (const [meaning, count] of countAlike(meanings)) printer.note(`${count} × ${toPlain(meaning)}`);
}

function meaningOf(answer: EndpointAnswer): string | undefined {
  const fault = faultOf(answer);
  if (fault !== undefined && isDelivered(answer))
    return `accepted even though the sandbox sent an invalid signature (fault ${fault}). The endpoint must verify the signature of each delivery over the exact bytes it received.`;
  if (fault !== undefined && isSignatureRefused(answer))
    return `correctly rejected: the sandbox sent an invalid signature (fault ${fault}). The sandbox may retry the delivery. The output of the sandbox shows each attempt.`;
  if (isAccepted(answer) && outcomeOf(answer) === 'handled') return RAN_AGAIN;
  if (answer.kind === 'lost') {
    return isAnswerLost(answer)
      ? `response lost: the sandbox dropped the response (fault ${answer.fault}), so the handler may have run. The sandbox may retry the delivery. The output of the sandbox shows each attempt.`
      : `lost: the attempt did not reach the handler because of the sandbox fault ${answer.fault}. The sandbox may retry the delivery. The output of the sandbox shows each attempt.`;
  }
  if (isNotDue(answer)) return undefined;
  const { what, fix } = explainAnswer(answer);
  const meaning = fix === null ? what : `${what} ${fix}`;
  return answer.kind === 'reply' ? `${describeAnswer(answer)}: ${meaning}` : meaning;
}

/** `handled` is a success only for the first copy of an event. */
const RAN_AGAIN =
  '200 handled: The handler ran a second time for the same event. Make all processes of the endpoint share one inbox.';

export function noteNotDue(printer: Printer, ids: Iterable<string>): void {
  const [first, ...more] = new Set(ids);
  if (first === undefined) return;
  const id = toPlain(first);
  const [wait, command, them] =
    more.length === 0
      ? [`${id} failed earlier and is waiting for its retry time.`, id, 'it']
      : [
          `${id} and ${more.length} more failed earlier and are waiting for their retry times.`,
          `${id} …`,
          'them',
        ];
  printer.note(
    `${wait} To make ${them} due now, run \`stablehooks inbox requeue --inbox INBOX ${command}\`. Then send ${them} again, or let the app's redrive run ${them}.`,
  );
}

export function summarise(rows: readonly Pick<DeliveryRow, 'answer'>[], total: number): string {
  // Without the time, all missing responses count as the same kind.
  const words = rows.map(({ answer }) =>
    answer.kind === 'silence' ? 'no response' : describeAnswer(answer),
  );
  const kinds = countAlike(words).map(([kind, count]) => `${count} × ${kind}`);
  const sent = `${rows.length} of ${total} sent`;
  return rows.length === 0 ? sent : `${sent}: ${toPlain(kinds.join(', '))}`;
}
