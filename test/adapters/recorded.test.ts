/** When a delivery is answered under `answer: 'recorded'`. Not in the contract: Lambda must wait for the handler. */
import { memoryInbox } from 'stablehooks';
import { toLambdaHandler } from 'stablehooks/lambda';
import { expect, test } from 'vitest';
import { deferred } from '../receiver/delivery.js';
import { isSettled } from '../receiver/set-up.js';
import { FRAMEWORKS } from './frameworks.js';
import { createLambdaBridge } from './lambda-bridge.js';
import { createObserved, deliverTo } from './observed.js';

/** A receiver that answers once an event is recorded, and whose handler waits until `gate` is resolved. */
function createRecording() {
  const started = deferred();
  const gate = deferred();
  const observed = createObserved({
    answer: 'recorded',
    inbox: { ...memoryInbox(), durable: true },
    handlers: {
      'transfer.settled': () => {
        started.resolve();
        return gate.promise;
      },
    },
  });
  return { ...observed, started, gate };
}

test.each(FRAMEWORKS)(
  'with $name, 202 is on the wire before the handler of the event ends',
  async ({ serve }) => {
    const { receiver, outcomes, gate } = createRecording();

    const reply = await deliverTo(await serve(receiver));
    expect(reply.status).toBe(202);
    expect(await reply.json()).toEqual({ outcome: 'queued' });
    expect(outcomes.map(({ kind }) => kind)).toEqual(['queued']);

    gate.resolve();
    await receiver.close();
    expect(outcomes.map(({ kind }) => kind)).toEqual(['queued', 'handled']);
  },
);

test('a Lambda function answers 202 only when the handler of the event has ended', async () => {
  const { receiver, outcomes, started, gate } = createRecording();
  const handler = toLambdaHandler(receiver);
  let answer: ReturnType<typeof handler> | undefined;
  const bridge = createLambdaBridge(
    (event) => {
      answer = handler(event);
      return answer;
    },
    { shape: 'a function URL', alwaysBase64: false },
  );

  const reply = deliverTo(bridge);
  await started.promise;
  expect(await isSettled(answer)).toBe(false);
  gate.resolve();

  expect((await reply).status).toBe(202);
  expect(outcomes.map(({ kind }) => kind)).toEqual(['queued', 'handled']);
});
