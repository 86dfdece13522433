import {
  EVENT_TYPES,
  encodeEvent,
  INBOX_STATES,
  type InboxFilter,
  type InboxRecord,
  type InboxState,
} from 'stablehooks';
import type { Finding } from '../explain/replies.js';
import { givenOf } from '../given.js';
import { meets, mustRead, type EventFilter as SharedFilter, toInboxFilter } from '../io/event-filter.js';
import {
  type AttemptLine,
  type EventCounts,
  type EventFilter,
  type EventPage,
  type EventRow,
  NONE_DROPPED,
  type SelectedFilter,
  type Tone,
} from './api.js';
import type { EventQuery, InspectedInbox } from './source.js';

/** An inbox cannot look up part of an id or of a body, so a search must read events. */
const MAX_SEARCHED = 5_000;
const PAGE = 500;

export async function listEvents(
  inbox: InspectedInbox,
  { limit, after, ...filter }: EventQuery,
): Promise<EventPage> {
  const exact = await toExactFilter(inbox, filter);
  if (exact !== undefined) {
    const records = await inbox.list({ ...exact, limit, after, order: 'newest' });
    const next = records.length < limit ? null : (records.at(-1)?.id ?? null);
    return { rows: records.map(toRow), next, searched: null };
  }
  const found: InboxRecord[] = [];
  let searched = 0;
  let last = after;
  for await (const record of search(inbox, filter, after)) {
    if (record.isFound) found.push(record.record);
    searched += 1;
    last = record.record.id;
    if (found.length === limit || searched === MAX_SEARCHED) {
      return { rows: found.map(toRow), next: last, searched };
    }
  }
  return { rows: found.map(toRow), next: null, searched };
}

/** Returns no counts if the events would have to be read in order to count them. */
export async function countEvents(inbox: InspectedInbox, filter: EventFilter): Promise<EventCounts> {
  const { state: _, ...rest } = filter;
  const exact = await toExactFilter(inbox, rest);
  const isAll = Object.values(rest).every((value) => value === undefined);
  return {
    states: exact === undefined ? null : await inbox.count(isAll ? undefined : exact),
    types: [...EVENT_TYPES],
    dropped: NONE_DROPPED,
  };
}

export async function toExactFilter(
  inbox: InspectedInbox,
  filter: SelectedFilter,
): Promise<InboxFilter | undefined> {
  const { id, text, ids } = filter;
  const { id: part, ...rest } = toShared(filter);
  if (text !== undefined || mustRead(rest)) return undefined;
  if (part === undefined) return givenOf({ ...toInboxFilter(rest), ids });
  return id === undefined || (await inbox.find(id)) === undefined
    ? undefined
    : { ...toInboxFilter(rest), ids: [id] };
}

function toShared({
  state,
  since,
  until,
  payload,
  ids: _ids,
  text: _text,
  ...rest
}: SelectedFilter): SharedFilter {
  const [, path = '', value = ''] = /^(?:payload\.)?([^=]+)=(.*)$/s.exec(payload?.trim() ?? '') ?? [];
  return {
    ...rest,
    // As on the command line, times refer to the last change: an event that died yesterday can have arrived earlier.
    ...{ updatedSince: since, updatedUntil: until },
    state: INBOX_STATES.find((each) => each === state),
    payload: payload === undefined ? undefined : [[path, value]],
  };
}

export async function* search(
  inbox: InspectedInbox,
  filter: SelectedFilter,
  after?: string,
): AsyncGenerator<{ readonly record: InboxRecord; readonly isFound: boolean }> {
  const [shared, text] = [toShared(filter), filter.text?.toLowerCase()];
  const query = givenOf({ ...toInboxFilter(shared), ids: filter.ids });
  for (let last = after; ; ) {
    const records = await inbox.list({ ...query, limit: PAGE, order: 'newest', after: last });
    for (const record of records) {
      const isFound =
        meets(record, shared) && (text === undefined || jsonOf(record).toLowerCase().includes(text));
      yield { record, isFound };
    }
    if (records.length < PAGE) return;
    last = records.at(-1)?.id;
  }
}

function jsonOf({ event }: InboxRecord): string {
  return event === null ? '' : encodeEvent(event);
}

export function toRow(record: InboxRecord): EventRow {
  const { id, type, state, attempts, receivedAt, dueAt, key, history } = record;
  const { tone, verdict } = toVerdict(record);
  return {
    id,
    type,
    state,
    tone,
    verdict,
    attempts,
    at: receivedAt,
    dueAt,
    key,
    history: history.map(toLine),
  };
}

const RESULT_TONES = {
  ...{ done: 'good', failed: 'bad', dead: 'bad', lapsed: 'bad', discarded: 'neutral' },
  ...{ later: 'neutral', requeued: 'neutral' },
} as const satisfies Record<InboxRecord['history'][number]['result'], Tone>;

function toLine(entry: InboxRecord['history'][number]): AttemptLine {
  const { attempt, startedAt: at, endedAt, result, error, by, reason } = entry;
  const line = {
    id: null,
    at,
    tone: RESULT_TONES[result],
    endpoint: null,
    faults: [],
    durationMs: endedAt - at,
  };
  const act = result === 'discarded' ? 'Discarded' : result === 'requeued' ? 'Requeued' : null;
  if (act !== null) return { ...line, name: `${act} by ${by ?? 'a person'}`, result: reason ?? '' };
  return { ...line, name: `Attempt ${attempt}`, result: error === null ? result : `${result}: ${error}` };
}

/** Once the lease has expired, no process is running the event, although the state stays `leased`. */
export function isRunning({ state, dueAt }: InboxRecord): boolean {
  return state === 'leased' && (dueAt ?? 0) > Date.now();
}

function toVerdict(record: InboxRecord): { readonly tone: Tone; readonly verdict: string } {
  const { state, attempts, lastError, dueAt, history, origin } = record;
  const count = attempts === 1 ? '1 attempt' : `${attempts} attempts`;
  const why = lastError === null ? '' : `: ${lastError}`;
  const last = history.at(-1);
  switch (state) {
    case 'done': {
      if (last?.result === 'discarded') {
        return { tone: 'neutral', verdict: `Discarded by ${last.by}: ${last.reason}` };
      }
      if (origin === 'import') return { tone: 'neutral', verdict: 'Imported as done' };
      if (attempts === 0) return { tone: 'neutral', verdict: 'Ignored: no handler' };
      return { tone: 'good', verdict: attempts === 1 ? 'Handled' : `Handled on attempt ${attempts}` };
    }
    case 'dead':
      return { tone: 'bad', verdict: `Dead after ${count}${why}` };
    case 'failed':
      return { tone: 'doubtful', verdict: `Failed, ${count}${why}` };
    case 'leased':
      return isRunning(record)
        ? { tone: 'neutral', verdict: 'Running' }
        : { tone: 'bad', verdict: 'The lease expired: the process that ran the event has ended' };
    case 'parked':
      return { tone: 'doubtful', verdict: 'Parked: this release does not know the type' };
    case 'received':
      if (last?.result === 'later')
        return { tone: 'neutral', verdict: `The handler asked for a later attempt${why}` };
      return (dueAt ?? 0) <= Date.now()
        ? { tone: 'neutral', verdict: 'Due, but not run yet' }
        : { tone: 'neutral', verdict: 'Waiting for its retry time' };
  }
}

const FIXES: Readonly<Record<InboxState, string | null>> = {
  done: null,
  dead: 'Fix the cause, then requeue the event. It does not run again until you do.',
  failed: 'Wait until the event is due and runs again, or run it now.',
  leased: null,
  parked: 'Upgrade stablehooks, and add a handler for this type.',
  received:
    'If the event stays due, no process is running it. Call receiver.start() in a process that has the handler.',
};

export function explainRecord(record: InboxRecord): Finding {
  const { verdict } = toVerdict(record);
  const isLapsed = record.state === 'leased' && !isRunning(record);
  const fix = isLapsed
    ? 'Call receiver.start() in a running process, which then takes over the event.'
    : FIXES[record.state];
  return { what: `${verdict}${/[.!?]$/.test(verdict) ? '' : '.'}`, fix };
}
