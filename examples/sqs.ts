import type { Receiver } from 'stablehooks';
import { toLambdaHandler } from 'stablehooks/lambda';

/** The parts of `SQSEvent` in `@types/aws-lambda` that this program reads. */
interface SqsBatch {
  readonly Records: readonly { readonly messageId: string; readonly body: string }[];
}

/** A Lambda handler for SQS messages. Each message is a request as API Gateway received it. */
export function toSqsHandler(receiver: Receiver) {
  const deliver = toLambdaHandler(receiver);
  return async ({ Records }: SqsBatch) => {
    const batchItemFailures: { itemIdentifier: string }[] = [];
    const run = async ({ messageId, body }: SqsBatch['Records'][number]) => {
      try {
        const { statusCode } = await deliver(JSON.parse(body));
        if (statusCode < 300) return;
      } catch (error) {
        console.error(`The message ${messageId} cannot be delivered.`, error);
      }
      batchItemFailures.push({ itemIdentifier: messageId });
    };
    await Promise.all(Records.map(run));
    return { batchItemFailures };
  };
}
