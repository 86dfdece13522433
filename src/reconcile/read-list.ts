import type { SurveyOptions } from '../catch-up/evidence.js';
import { ListReader, type PollerClient, runSurvey } from '../catch-up/list.js';
import { EVENT_TYPES } from '../core/events.js';
import type { ListProof } from './proof.js';

/** The events of the list, and the spans for which the list is proven complete. */
export type ReadList = Awaited<ReturnType<typeof readList>>;

/** Reads the list as a poll does, back to `since` if the proof reaches that far, but records nothing. */
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
    /** The events from `since` on, by id. */
    events: new Map(found.map((listed) => [listed.event.id, listed])),
    conflicts: list.conflicts(since),
    proof: Object.fromEntries(spans) as ListProof,
    /** A complete list has every event that was created later; `-Infinity` if that is from before `since`. */
    shownFrom: list.size > found.length ? Number.NEGATIVE_INFINITY : oldestAt + lagMs + disorderMs,
    isEmpty: list.size === 0,
    /** Pushed events that no poll has found in the list. */
    unlisted: new Set(lost?.reason === 'unlisted' ? lost.events.map(({ id }) => id) : []),
    /** Events created later may still be listed, epoch ms. */
    settledAt,
    /** How late an event may be listed after its `created_at`, and how wrong a clock may be. */
    lagMs,
    problems: list.problems(since),
    requests: list.requests,
  };
}
