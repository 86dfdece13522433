/** The intake: asks the list on behalf of a survey, and records each page before the survey hears of it. */
import type { UnknownEvent } from '../core/events.js';
import type { RecordResult } from '../core/inbox.js';
import type { Answer, Question } from './coverage.js';
import type { PollerRules } from './options.js';
import { readPage, sameEvent } from './page.js';
import { type Problem, toProblem } from './problem.js';

/** An event from the list, and how the inbox knew it when it was first listed in this poll. */
export interface Arrival {
  readonly event: UnknownEvent;
  readonly result: RecordResult;
}

/** What came in during one poll. */
export interface Intake {
  /** Puts the question and records what came; `null`, with the problem noted, when either failed. */
  ask(question: Question): Promise<Answer | null>;
  /** By id. */
  readonly arrivals: ReadonlyMap<string, Arrival>;
  /** Each once, however many answers showed it. */
  readonly problems: readonly Problem[];
  requests(): number;
  /** The size of the largest answer. */
  largest(): number;
}

/** What {@link createIntake} needs. */
export interface IntakeRules extends Pick<PollerRules, 'client' | 'receiver' | 'leaseMs'> {
  readonly signal: AbortSignal;
}

/** A store that is busy with a long page lets no delivery in meanwhile. */
const RECORDED_AT_ONCE = 500;

export function createIntake({ client, receiver, leaseMs, signal }: IntakeRules): Intake {
  const arrivals = new Map<string, Arrival>();
  const problems = new Map<string, Problem>();
  let requests = 0;
  let largest = 0;

  const note = (problem: Problem) => problems.set(JSON.stringify(problem), problem);

  async function ask(question: Question): Promise<Answer | null> {
    if (signal.aborted) return null;
    try {
      requests += 1;
      const { type, limit } = question;
      const list = await client.events.page({ ...(type !== null && { type }), limit, signal });
      const page = readPage(list, question);
      largest = Math.max(largest, page.answer.size);
      for (const problem of page.problems) note(problem);
      await take(page.events);
      return page.answer;
    } catch (error) {
      if (!signal.aborted) note(toProblem(error, { code: 'ERR_API_RESPONSE' }));
      return null;
    }
  }

  async function take(events: readonly UnknownEvent[]): Promise<void> {
    const fresh = new Map<string, UnknownEvent>();
    for (const event of events) {
      const first = arrivals.get(event.id)?.event ?? fresh.get(event.id);
      if (first === undefined) fresh.set(event.id, event);
      else if (!sameEvent(first, event)) note(conflict(event));
    }
    const page = [...fresh.values()];
    for (let from = 0; from < page.length && !signal.aborted; from += RECORDED_AT_ONCE) {
      const part = page.slice(from, from + RECORDED_AT_ONCE);
      // Nobody redrives what waits for us here before our lease to poll could have lapsed.
      const results = await receiver.record(part, { dueInMs: leaseMs, origin: 'pull' });
      for (const [index, event] of part.entries()) {
        const result = results[index];
        if (result !== undefined) arrivals.set(event.id, { event, result });
      }
    }
    signal.throwIfAborted();
  }

  return {
    ask,
    arrivals,
    get problems() {
      return [...problems.values()];
    },
    requests: () => requests,
    largest: () => largest,
  };
}

function conflict({ id }: UnknownEvent): Problem {
  const message = 'The list holds two events of this id that differ; the first one stands. Ask the service.';
  return { code: 'ERR_EVENT_CONFLICT', message, id };
}
