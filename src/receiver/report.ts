import { describeThrown, messageOf } from '../core/errors.js';
import type { UnknownEvent } from '../core/events.js';
import { log, notify } from '../core/log.js';
import type { Logger, Origin } from '../core/ports.js';
import { type Conclude, type Layer, wrap } from './layers.js';
import { type Outcome, type OutcomeResult, toFailure } from './outcome.js';

/** A delivery's event and `secretIndex` are added once they are known. */
export interface OpenFacts {
  readonly origin: Origin;
  event?: UnknownEvent | undefined;
  secretIndex?: number | undefined;
  logger: Logger;
  /** If several processes may redrive the event, it isn't logged when another process runs it first. */
  readonly isContended?: boolean;
}

export class Report {
  readonly #onOutcome: ((outcome: Outcome) => unknown) | undefined;
  readonly #around: Conclude;

  constructor(onOutcome: ((outcome: Outcome) => unknown) | undefined, layers: readonly Layer[]) {
    this.#onOutcome = onOutcome;
    this.#around = wrap<Conclude>(
      layers,
      (layer, next) => layer.conclude?.(next),
      (_facts, run) => run(),
    );
  }

  /** Calls `run` synchronously. Never rejects. */
  async conclude(
    facts: OpenFacts,
    run: () => Promise<OutcomeResult>,
    traceparent?: string,
  ): Promise<Outcome> {
    const toOutcome = async () => this.#publish(facts, await run().catch(toFailure));
    try {
      return await this.#around(facts, toOutcome, traceparent);
    } catch (error) {
      // A layer failed.
      return this.#publish(facts, toFailure(error));
    }
  }

  #publish(facts: OpenFacts, { kind, attempt, handlerMs, error }: OutcomeResult): Outcome {
    const { origin, event, secretIndex, logger, isContended = false } = facts;
    // Frozen, because the response is created from this object after `onOutcome` has received it.
    const outcome = Object.freeze({
      ...{ kind, origin, event, secretIndex, attempt, handlerMs, error },
    }) as Outcome;
    const isContention = isContended && (error?.code === 'ERR_KEY_BUSY' || error?.code === 'ERR_EVENT_BUSY');
    if (!isContention) logOutcome(outcome, logger);
    if (this.#onOutcome !== undefined) notify('onOutcome', this.#onOutcome, { value: outcome, logger });
    return outcome;
  }
}

/**
 * If an outcome has an error, logs what failed and how to fix it. Every receiver calls this function with its own `logger`.
 * No line contains a payload, a secret, a token or a signature. If a handler throws, the error's message and stack are
 * logged.
 *
 * @param logger - receives each line as a string. @default console
 */
export function logOutcome({ kind, origin, event, error }: Outcome, logger: Logger = console): void {
  if (error === undefined) return;
  const about = event === undefined ? '' : ` ${event.type} ${event.id}`;
  const cause = error.cause === undefined ? '' : `\ncaused by ${describeThrown(error.cause)}`;
  const level = kind === 'rejected' || kind === 'busy' ? 'warn' : 'error';
  log(logger, level, `${kind}${about} (${origin}) ${error.code}: ${messageOf(error)}${cause}`);
}
