import { ConfigError, PermanentError, StablehooksError } from '../core/errors.js';
import { isName } from '../core/events.js';
import { oneOf, readOptions } from '../core/options.js';
import type { InboxStep, Lease } from '../core/ports.js';
import { type Moment, msSince } from '../core/runtime.js';
import type { StepOptions } from './handler.js';
import type { CoreParts } from './parts.js';
import { leaseLost } from './store.js';

const MAX_RESULT_LENGTH = 65_536;

/** Makes the handler fail even if the handler caught the error. */
interface StepFailure {
  readonly error: unknown;
}

export type HandlerSteps = ReturnType<typeof createSteps>;

export function createSteps({ store, settings, runStep }: CoreParts, lease: Lease, askedAt: Moment) {
  const { runtime, leaseMs } = settings;
  const used = new Set<string>();
  let stored: Promise<readonly InboxStep[]> | undefined;
  const open = new Set<Promise<unknown>>();
  let state: 'running' | 'ending' | 'ended' = 'running';
  let failure: StepFailure | undefined;
  /** The handler may have caught these errors. */
  const rejected: (StepFailure & { readonly step: StepPromise })[] = [];

  function run(name: string, work: () => unknown, options: StepOptions = {}): Promise<unknown> {
    const step = new StepPromise((resolve) => resolve(runOnce(name, work, options)));
    const ended = step.settled.catch((error: unknown) => {
      if (state !== 'running' || error instanceof UnknownEffect) failure ??= { error };
      else rejected.push({ step, error });
    });
    open.add(ended);
    void ended.then(() => open.delete(ended));
    return step;
  }

  async function end(): Promise<StepFailure | undefined> {
    state = 'ending';
    while (open.size > 0) await Promise.allSettled(open);
    state = 'ended';
    return failure ?? rejected.find(({ step }) => !step.isAwaited);
  }

  async function runOnce(name: string, work: () => unknown, options: StepOptions): Promise<unknown> {
    if (state === 'ended') {
      throw new StablehooksError(
        'ERR_HANDLER_FAILED',
        `ctx.step: the handler has ended, so step ${name} did not run. Await every step in the handler.`,
      );
    }
    const { onInterrupted } = readOptions('ctx.step', options, { onInterrupted: ON_INTERRUPTED });
    if (!isName(name) || used.has(name)) {
      throw new ConfigError(
        `ctx.step: ${JSON.stringify(name)} is not a valid step name, or was already used. Give each step of a handler a unique name of 1 to 512 bytes.`,
      );
    }
    used.add(name);
    stored ??= store.readSteps(lease);
    const found = (await stored).find((step) => step.name === name);
    if (found !== undefined) {
      if (found.result === null) throw unknownEffect(name, NO_RESULT);
      return toValue(found.result);
    }
    const save = (result: string | null | undefined) => store.saveStep(lease, name, result);
    const isGuarded = onInterrupted === 'fail';
    if (isGuarded) await save(null);
    // If this process was frozen until its lease expired, another process may have run the step in the meantime.
    if (msSince(askedAt, runtime) >= leaseMs) throw leaseLost(lease);
    let value: unknown;
    try {
      value = await runStep(lease, name, work);
    } catch (cause) {
      if (!isGuarded) throw cause;
      if (Object(cause).code !== 'ERR_HANDLER_LATER') throw unknownEffect(name, NO_RESULT, { cause });
      await save(undefined);
      throw cause;
    }
    const result = toResult(value);
    if (result === null) {
      // The step has run, so a later attempt must not repeat it.
      if (!isGuarded) await save(null);
      throw unknownEffect(
        name,
        `returned a result that is not JSON or is longer than ${MAX_RESULT_LENGTH} characters`,
      );
    }
    await save(result);
    return toValue(result);
  }

  return { run, end };
}

/** Records whether the handler awaits the step, because the failure of an unawaited step would go unnoticed. */
class StepPromise extends Promise<unknown> {
  isAwaited = false;
  /** Awaiting this promise does not mark the step as awaited. */
  readonly settled = super.then();

  static override get [Symbol.species]() {
    return Promise;
  }

  // `await`, `Promise.all` and `catch` call this method.
  override then: Promise<unknown>['then'] = (onFulfilled, onRejected) => {
    this.isAwaited = true;
    return super.then(onFulfilled, onRejected);
  };
}

const ON_INTERRUPTED = oneOf(['repeat', 'fail']);

function toResult(value: unknown): string | null {
  try {
    const json = value === undefined ? '' : JSON.stringify(value);
    return json === undefined || json.length > MAX_RESULT_LENGTH ? null : json;
  } catch {
    return null;
  }
}

/** Also applied to new results, so that every attempt receives the same value. */
function toValue(result: string): unknown {
  return result === '' ? undefined : JSON.parse(result);
}

const NO_RESULT = 'began but recorded no result';

/** An error that dead-letters the event even if the handler catches it. */
class UnknownEffect extends PermanentError {}

function unknownEffect(name: string, why: string, options?: ErrorOptions): PermanentError {
  return new UnknownEffect(
    `Step ${name} ${why}, so it will not run again. Check whether its effect happened, then requeue the event with --step ${name}=done or --step ${name}=again.`,
    options,
  );
}
