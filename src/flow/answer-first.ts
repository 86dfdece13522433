/** `answer: 'recorded'`: a delivery is answered once it is durably stored. Its handler runs after the answer. */
import type { UnknownEvent } from '../core/events.js';
import { nextTurn } from '../core/runtime.js';
import type { AttemptParts } from '../receiver/attempt.js';
import { resultOf } from '../receiver/dispatch.js';
import type { Redriver } from '../receiver/redriver.js';
import type { Dispatch, Work } from '../receiver/work.js';

type AnswerFirstParts = AttemptParts & {
  readonly redriver: Redriver;
  readonly hasHandler: (event: UnknownEvent) => boolean;
};

export function answerFirst(parts: AnswerFirstParts): (next: Dispatch) => Dispatch {
  const { store, inFlight, leaseMs, hasHandler } = parts;
  return (next) => async (work) => {
    if (!hasHandler(work.event)) return next(work);
    const recorded = await store.recordOne(work, leaseMs);
    const mustRun = recorded === 'new' || recorded === 'received' || recorded === 'parked';
    if (!mustRun) return { result: resultOf(recorded) };
    return { result: { kind: 'queued' }, rest: inFlight.track(runAfterAnswer(parts, next, work)) };
  };
}

/** Stores a delivery for the redriver when no slot is free. */
export function storeForLater({ store, redriver }: AnswerFirstParts): Dispatch {
  return async (work) => {
    const recorded = await store.recordOne(work, 0);
    redriver.wake();
    return { result: resultOf(recorded), rest: redriver.idle() };
  };
}

/** Keeps the invocation alive until the events that waited for a handler or its slot have run. Outside of the slots. */
export function awaitIdle(redriver: Redriver): (next: Dispatch) => Dispatch {
  return (next) => async (work) => {
    const { result, rest } = await next(work);
    return { result, rest: rest?.then(() => redriver.idle()) };
  };
}

/** Runs the handler of an answered delivery. Never rejects. */
async function runAfterAnswer(
  { report, runtime }: AnswerFirstParts,
  next: Dispatch,
  work: Work,
): Promise<void> {
  // A synchronous start of a handler must not delay the answer.
  await nextTurn(runtime);
  let rest: Promise<unknown> | undefined;
  await report.conclude({ ...work, isContended: true }, async () => {
    const run = await next(work);
    ({ rest } = run);
    return run.result;
  });
  await rest;
}
