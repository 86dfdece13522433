import type { SurveyOptions } from '../catch-up/coverage.js';
import { limitProofs } from '../catch-up/gaps.js';
import { createListReader, type ListedEvent, type PollerClient, runSurvey } from '../catch-up/list.js';
import type { PollProblem } from '../catch-up/problems.js';
import { EVENT_TYPES } from '../core/events.js';
import type { PollState } from '../core/ports.js';
import type { ListProof } from './proof.js';

/** The events of the list, and the times for which it showed all of them. */
export interface ReadList {
  /** The events from `since` on, by id. */
  readonly events: ReadonlyMap<string, ListedEvent>;
  /** Further events that it shows with an id, and that are not the same as the first one. */
  readonly conflicts: ReadonlyMap<string, readonly ListedEvent[]>;
  readonly proof: ListProof;
  /**
   * The list has every event that was created later, if it was complete: a service that removes events by age has
   * everything that is newer than the oldest that it shows. `-Infinity` if that is from before `since`.
   */
  readonly shownFrom: number;
  /** Events created later can still be listed, epoch ms. */
  readonly settledAt: number;
  readonly problems: readonly PollProblem[];
  readonly requests: number;
}

/**
 * Reads the list as a poll does, and with the same proof, but records nothing.
 *
 * @param since - the list is read until it is proven back to here, as far as that is possible; epoch ms.
 * @throws the client's error when the service answers none of the requests.
 */
export async function readList({
  client,
  since,
  state,
  signal,
  ...options
}: Omit<SurveyOptions, 'watermark' | 'first' | 'lastLimit' | 'oldest'> & {
  readonly client: PollerClient;
  /** The poller's. */
  readonly state: PollState;
  readonly since: number;
  readonly signal: AbortSignal;
}): Promise<ReadList> {
  const { startedAt, lagMs, disorderMs } = options;
  let failure: unknown;
  const list = createListReader({
    client: {
      events: {
        listWithProblems: async (query) => {
          try {
            return await client.events.listWithProblems(query);
          } catch (error) {
            failure = error;
            throw error;
          }
        },
      },
    },
    lagMs,
    startedAt,
    signal,
  });
  const { limit: lastLimit, oldest } = state;
  const survey = await runSurvey(list, { ...options, watermark: since - 1, lastLimit, oldest });
  signal.throwIfAborted();
  const { answered, settledAt } = survey;
  if (!answered) throw failure;
  const proofs = limitProofs(survey.proofs, state.gaps);
  const spans = EVENT_TYPES.map((type) => [type, { ...proofs[type], until: settledAt }]);
  const events = list.found(since);
  const oldestAt = [...events.values()].reduce(
    (time, { at }) => Math.min(time, at),
    Number.POSITIVE_INFINITY,
  );
  return {
    events,
    conflicts: list.conflicts,
    proof: Object.fromEntries(spans) as ListProof,
    shownFrom: list.size() > events.size ? Number.NEGATIVE_INFINITY : oldestAt + lagMs + disorderMs,
    settledAt,
    problems: list.problems(since),
    requests: list.requests(),
  };
}
