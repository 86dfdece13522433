import type { SurveyOptions } from '../catch-up/evidence.js';
import { ListReader, type PollerClient, runSurvey } from '../catch-up/list.js';
import { EVENT_TYPES } from '../core/events.js';
import type { ListProof } from './proof.js';

export type ReadList = Awaited<ReturnType<typeof readList>>;

/** Records nothing, unlike a poll. Goes back to `since` if the proof reaches that far. */
export async function readList({
  client,
  since,
  state,
  signal,
  ...options
}: Omit<SurveyOptions, 'watermark' | 'first'> & {
  readonly client: PollerClient;
  readonly since: number;
  readonly signal: AbortSignal;
}) {
  const { lagMs, disorderMs } = options;
  const { lost } = state.seen ?? {};
  const list = new ListReader(client, signal);
  const survey = await runSurvey(list, { ...options, watermark: since - 1, state: { ...state, limit: 0 } });
  signal.throwIfAborted();
  const { answered, settledAt, proofs } = survey;
  if (!answered) throw list.lastError;
  const spans = EVENT_TYPES.map((type) => [type, { ...proofs[type], until: settledAt }]);
  const found = list.found(since);
  const oldestAt = found.reduce((time, { at }) => Math.min(time, at), Number.POSITIVE_INFINITY);
  return {
    events: new Map(found.map((listed) => [listed.event.id, listed])),
    conflicts: list.conflicts(since),
    proof: Object.fromEntries(spans) as ListProof,
    /** A complete list has every event created after this time, in epoch ms. */
    shownFrom: list.size > found.length ? Number.NEGATIVE_INFINITY : oldestAt + lagMs + disorderMs,
    isEmpty: list.size === 0,
    /** Pushed events that no poll has found in the service's list. */
    unlisted: new Set(lost?.reason === 'unlisted' ? lost.events.map(({ id }) => id) : []),
    /** Events that were created after this time, in epoch ms, may not be listed yet. */
    settledAt,
    /** How long after its `created_at` an event can be listed, and how wrong a clock can be, in ms. */
    lagMs,
    problems: list.problems(since),
    requests: list.requests,
  };
}
