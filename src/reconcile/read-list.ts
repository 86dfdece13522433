import { type SurveyOptions, surveyList } from '../catch-up/coverage.js';
import { createListReader, type PollerClient } from '../catch-up/list.js';
import type { FoundEvent, PollProblem } from '../catch-up/report.js';
import { EVENT_TYPES } from '../core/events.js';
import type { ListProof } from './proof.js';

/** What the list showed, and of which times it showed everything. */
export interface ReadList {
  /** The events from `since` on, by id. */
  readonly events: ReadonlyMap<string, FoundEvent>;
  readonly proof: ListProof;
  /** Events created later can still be listed, epoch ms. */
  readonly settledAt: number;
  readonly problems: readonly PollProblem[];
  readonly requests: number;
}

/**
 * Reads the list as a poll does, and with the same proof, but records nothing.
 *
 * @param since - the list is read until it is proven back to here, as far as that is possible; epoch ms.
 * @throws what the client threw, when no request was answered.
 */
export async function readList({
  client,
  since,
  signal,
  ...options
}: Omit<SurveyOptions, 'watermark' | 'first'> & {
  readonly client: PollerClient;
  readonly since: number;
  readonly signal: AbortSignal;
}): Promise<ReadList> {
  const { startedAt, lagMs } = options;
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
    receiver: { record: async (events) => events.map(() => 'received' as const) },
    leaseMs: 0,
    lagMs,
    startedAt,
    takeFrom: () => since,
    signal,
  });
  const survey = surveyList({ ...options, watermark: since - 1 });
  let step = survey.next();
  while (!step.done) step = survey.next(await list.read(step.value));
  signal.throwIfAborted();
  const { answered, proofs, settledAt } = step.value;
  if (!answered) throw failure;
  const spans = EVENT_TYPES.map((type) => [type, { ...proofs[type], until: settledAt }]);
  return {
    events: list.found,
    proof: Object.fromEntries(spans) as ListProof,
    settledAt,
    problems: list.problems(),
    requests: list.requests(),
  };
}
