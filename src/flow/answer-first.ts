import { nextTurn } from '../core/runtime.js';
import { resultOf } from '../receiver/dispatch.js';
import { hasHandler } from '../receiver/options.js';
import type { CoreParts } from '../receiver/parts.js';
import type { Dispatch, Work } from '../receiver/work.js';

export function answerFirst(next: Dispatch, parts: CoreParts): Dispatch {
  const { settings, store, inFlight } = parts;
  return async (work) => {
    if (!hasHandler(settings, work.event)) return next(work);
    const recorded = await store.recordOne(work, settings.leaseMs);
    const mustRun = recorded === 'new' || recorded === 'received' || recorded === 'parked';
    if (!mustRun) return { result: resultOf(recorded) };
    return { result: { kind: 'queued' }, rest: inFlight.track(runAfterAnswer(next, work, parts)) };
  };
}

/** If no slot is free, a burst of events waits in the inbox instead of in the memory of this process. */
export function storeForLater({ store, redriver }: CoreParts): Dispatch {
  return async (work) => {
    const recorded = await store.recordOne(work, 0);
    redriver.wake();
    return { result: resultOf(recorded), rest: redriver.idle() };
  };
}

/** Keeps the invocation alive, without a slot, until events that waited for this handler or its slot have run. */
export function awaitIdle(next: Dispatch, { redriver }: CoreParts): Dispatch {
  return async (work) => {
    const { result, rest } = await next(work);
    return { result, rest: rest?.then(() => redriver.idle()) };
  };
}

async function runAfterAnswer(
  next: Dispatch,
  work: Work,
  { report, logger, settings }: CoreParts,
): Promise<void> {
  // A handler may begin with synchronous work, which must not delay the response.
  await nextTurn(settings.runtime);
  const { event, origin, secretIndex } = work;
  let rest: Promise<unknown> | undefined;
  await report.conclude({ event, origin, secretIndex, logger, isContended: true }, async () => {
    const run = await next(work);
    ({ rest } = run);
    return run.result;
  });
  await rest;
}
