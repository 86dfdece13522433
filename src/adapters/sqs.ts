/** `stablehooks/sqs`: the adapter for AWS Lambda with SQS, where a gateway puts each delivery into a queue. */
import { ConfigError } from '../core/errors.js';
import { toWebhookResponse } from '../receiver/outcome.js';
import { partsOf } from '../receiver/parts.js';
import type { Receiver } from '../receiver/receiver.js';
import { type ReceiverSource, toReceiver } from '../receiver/source.js';
import { toBytes } from './text-body.js';

const FIX = 'Pass the batch as Lambda passed it: in middy, remove sqsJsonBodyParser from this function.';

/** A batch of messages, as Lambda passes it. */
export interface SqsEvent {
  readonly Records: readonly SqsRecord[];
}

/** One message. */
export interface SqsRecord {
  readonly messageId: string;
  /** The raw body of the delivery. */
  readonly body: string;
  readonly attributes: { readonly MessageGroupId?: string | undefined };
  /** The headers of the delivery: the signature header, under its name. */
  readonly messageAttributes: Readonly<Record<string, SqsAttribute>>;
  /** The name of a FIFO queue ends with `.fifo`. */
  readonly eventSourceARN: string;
}

/** The value of a header. */
export interface SqsAttribute {
  readonly stringValue?: string | undefined;
  /** The bytes of the value, in base64. */
  readonly binaryValue?: string | undefined;
}

/** The failed messages. SQS delivers them again, and moves them to the dead-letter queue at `maxReceiveCount`. */
export interface SqsBatchResponse {
  readonly batchItemFailures: { itemIdentifier: string }[];
}

/** How many messages run at a time, as in `redrive`. */
const WIDTH = 16;

/**
 * Creates a handler for Lambda with an SQS event source. The source must have `ReportBatchItemFailures`: without it
 * Lambda deletes failed messages.
 *
 * The body of a message is the raw body of the delivery. The signature is the message attribute with the name of the
 * signature header, in any case, of type String or Binary. A message that would be answered 4xx or 5xx over HTTP is
 * reported as failed, so no message is deleted before its event is handled or stored.
 *
 * Up to 16 messages run at a time, or `maxConcurrency` of the receiver if that is less. Messages of one group of a FIFO
 * queue run one after the other; after a failed message, the later ones are reported as failed and do not run. The
 * handler waits until all handlers of events have ended, after `leaseMs` at the latest, even under `answer: 'recorded'`.
 *
 * It rejects with `ERR_CONFIG_INVALID` when the invocation is not a batch of SQS messages, or when the function that
 * creates the receiver fails.
 *
 * @param receiver - a receiver, or a function that creates it at the first batch.
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when `receiver` is neither.
 *
 * @example
 * ```ts
 * export const handler = toSqsHandler(receiver);
 * ```
 */
export function toSqsHandler(source: ReceiverSource): (event: SqsEvent) => Promise<SqsBatchResponse> {
  const toMade = toReceiver('toSqsHandler', source);
  return async (event) => {
    const groups = toGroups(readRecords(event));
    const receiver = toMade();
    const failed: string[] = [];
    async function runGroups(): Promise<void> {
      for (let group = groups.shift(); group !== undefined; group = groups.shift()) {
        failed.push(...(await runGroup(receiver, group)));
      }
    }
    const { maxConcurrency = WIDTH } = partsOf('toSqsHandler', receiver).settings;
    const width = Math.min(WIDTH, maxConcurrency);
    await Promise.all(Array.from({ length: width }, runGroups));
    return { batchItemFailures: failed.map((itemIdentifier) => ({ itemIdentifier })) };
  };
}

/** Runs messages one after the other until one fails. Resolves to the ids of the messages that did not succeed. */
async function runGroup(receiver: Receiver, records: readonly SqsRecord[]): Promise<readonly string[]> {
  for (const [index, record] of records.entries()) {
    const works: Promise<unknown>[] = [];
    const outcome = await receiver.receive({
      method: 'POST',
      header: (name) => readAttribute(record.messageAttributes, name.toLowerCase()),
      body: (maxBytes) => toBytes(record.body, { encoding: 'utf8', maxBytes, fix: FIX }),
      waitUntil: (work) => works.push(work),
    });
    await Promise.all(works);
    const isSuccess = toWebhookResponse(outcome).status < 300;
    if (!isSuccess) return records.slice(index).map(({ messageId }) => messageId);
  }
  return [];
}

function readAttribute(attributes: SqsRecord['messageAttributes'], wanted: string): string | undefined {
  const found = Object.entries(attributes ?? {}).filter(([name]) => name.toLowerCase() === wanted);
  const values = found.map(([, { stringValue, binaryValue }]) => {
    return stringValue ?? Buffer.from(binaryValue ?? '', 'base64').toString();
  });
  return values.length === 0 ? undefined : values.join(', ');
}

/** A message without an id cannot be reported as failed, so the whole batch must fail. */
function readRecords(event: SqsEvent): readonly SqsRecord[] {
  const records: unknown = Object(event).Records;
  if (Array.isArray(records) && records.every(isRecord)) return records;
  throw new ConfigError(
    'toSqsHandler: the invocation is not a batch of SQS messages. Connect the function to an SQS queue; for HTTP requests use toLambdaHandler.',
  );
}

function isRecord(value: unknown): value is SqsRecord {
  const { messageId, body }: Partial<Record<keyof SqsRecord, unknown>> = Object(value);
  return typeof messageId === 'string' && body !== undefined;
}

/** Groups the messages that must run in order: those of one group of a FIFO queue. Other queues have no order. */
function toGroups(records: readonly SqsRecord[]): SqsRecord[][] {
  const groups = new Map<string | SqsRecord, SqsRecord[]>();
  for (const record of records) {
    const isFifo = String(record.eventSourceARN).endsWith('.fifo');
    const key = (isFifo ? record.attributes?.MessageGroupId : undefined) ?? record;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [record]);
    else group.push(record);
  }
  return [...groups.values()];
}
