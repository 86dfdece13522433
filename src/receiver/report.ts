/** Turns results and errors into outcomes: the only place that catches, logs and calls the observer. */
import { describeThrown, messageOf } from '../core/errors.js';
import type { UnknownEvent } from '../core/events.js';
import { log, notify } from '../core/log.js';
import type { Logger } from '../core/ports.js';
import type { InFlight } from './in-flight.js';
import { type Outcome, type OutcomeResult, toFailure } from './outcome.js';
import type { Conclude, Pass } from './work.js';

/** A pass while it runs. */
export interface OpenPass extends Pass {
  event: UnknownEvent | undefined;
  secretIndex: number | undefined;
  logger: Logger;
  /** Whether `close()` waits for it. */
  isInFlight: boolean;
}

/** The facts about a pass when it begins. A delivery adds its event and `secretIndex` later. */
type PassStart = Pick<Pass, 'origin'> &
  Partial<Pick<OpenPass, 'event' | 'secretIndex'>> & {
    /** Whether another process may run the event first, as when several redrive. That is not worth a line. */
    readonly isContended?: boolean;
    /** The trace context of its event. */
    readonly traceparent?: string | undefined;
  };

export interface Report {
  /** Runs a pass to its outcome, calling `run` synchronously. Never rejects. */
  conclude(start: PassStart, run: (pass: OpenPass) => Promise<OutcomeResult>): Promise<Outcome>;
}

export function createReport({
  logger,
  onOutcome,
  inFlight,
  around,
}: {
  readonly logger: Logger;
  readonly onOutcome: ((outcome: Outcome) => unknown) | undefined;
  readonly inFlight: InFlight;
  /** The layers around each pass. */
  readonly around: Conclude | undefined;
}): Report {
  // Not async: an async function allocates about 0.5 kB per delivery here.
  const conclude: Report['conclude'] = (start, run) => {
    const { origin, event, secretIndex, isContended = false, traceparent } = start;
    const pass: OpenPass = { origin, event, secretIndex, logger, isInFlight: false };
    const end = ({ kind, attempt, handlerMs, error }: OutcomeResult): Outcome => {
      const facts = {
        kind,
        origin,
        event: pass.event,
        secretIndex: pass.secretIndex,
        attempt,
        handlerMs,
        error,
      };
      // Frozen, because the response is made from it after the observer has seen it.
      const outcome = Object.freeze(facts) as Outcome;
      const isContention =
        isContended && (error?.code === 'ERR_KEY_BUSY' || error?.code === 'ERR_EVENT_BUSY');
      if (!isContention) logOutcome(outcome, pass.logger);
      if (onOutcome !== undefined) notify('onOutcome', onOutcome, { value: outcome, logger: pass.logger });
      if (pass.isInFlight) inFlight.leave();
      return outcome;
    };
    const fail = (error: unknown) => end(toFailure(error));
    if (around === undefined) return run(pass).then(end, fail);
    return around(pass, () => run(pass).then(end, fail), traceparent);
  };
  return { conclude };
}

/**
 * Logs an outcome that has an error, in one line with the fix, as every receiver does by its `logger`.
 * No line contains a payload, a secret, a token or a signature. An error thrown by a handler is logged with its message
 * and stack.
 *
 * @param logger - receives one string per line. @default console
 */
export function logOutcome({ kind, origin, event, error }: Outcome, logger: Logger = console): void {
  if (error === undefined) return;
  const about = event === undefined ? '' : ` ${event.type} ${event.id}`;
  const cause = error.cause === undefined ? '' : `\ncaused by ${describeThrown(error.cause)}`;
  const level = kind === 'rejected' || kind === 'busy' ? 'warn' : 'error';
  log(logger, level, `${kind}${about} (${origin}) ${error.code}: ${messageOf(error)}${cause}`);
}
