/** The inbox looks up some conditions. To check the others, this module reads the events. */
import type { InboxFilter, InboxOperations, InboxRecord } from 'stablehooks';
import { toErrorPattern } from '../explain/error-groups.js';
import { givenOf } from '../given.js';
import { toPlain } from './output.js';
import { isObject } from './settings.js';

/** `permanent`: the handler said that a retry cannot help. `expired`: an attempt recorded no result. */
export const EXCEPTIONS = ['permanent', 'expired'] as const;

export interface EventFilter
  extends Pick<InboxFilter, 'state' | 'type' | 'key' | 'ignored' | 'updatedSince' | 'updatedUntil'> {
  /** Part of the last error, case-sensitive. */
  readonly error?: string | undefined;
  /** An error in which `…` replaces variable parts and `·` can replace control characters. */
  readonly group?: string | undefined;
  /** Part of the id, case-insensitive. If an event has exactly this id, no other event matches. */
  readonly id?: string | undefined;
  /** The minimum number of attempts. */
  readonly attempts?: number | undefined;
  /** Values in the payload by their path, such as `transfer_id` or `account.id`. */
  readonly payload?: readonly (readonly [path: string, value: string])[] | undefined;
  /** Leaves out events whose effect may have happened, and events for which a retry cannot help. */
  readonly except?: readonly (typeof EXCEPTIONS)[number][] | undefined;
}

export function toInboxFilter(filter: EventFilter): InboxFilter {
  const { state, type, key, ignored, updatedSince, updatedUntil, group } = filter;
  const error = filter.error ?? group?.split(/[…·]/).toSorted((a, b) => b.length - a.length)[0];
  return givenOf({ state, type, key, ignored, updatedSince, updatedUntil, error: error || undefined });
}

/** Whether the inbox alone cannot tell which events match. */
export function mustRead({ group, id, attempts, payload, except }: EventFilter): boolean {
  return [group, id, attempts, payload, except].some((each) => each !== undefined);
}

/** Can miss an event whose state changes in the meantime. `onUnread` reports a payload that cannot be searched. */
export async function* findEvents(
  inbox: Pick<InboxOperations, 'list' | 'find'>,
  filter: EventFilter,
  {
    order = 'oldest',
    onUnread,
  }: { readonly order?: 'oldest' | 'newest'; readonly onUnread?: () => void } = {},
): AsyncGenerator<InboxRecord, void, undefined> {
  const { id, payload, ...others } = filter;
  const ids = id !== undefined && (await inbox.find(id)) !== undefined ? { ids: [id] } : {};
  let after: string | undefined;
  do {
    const page = await inbox.list({ ...toInboxFilter(filter), ...ids, limit: PAGE, order, after });
    for (const record of page) {
      if (meets(record, filter)) yield record;
      else if (payload !== undefined && record.event === null && meets(record, others)) onUnread?.();
    }
    // Only an empty page ends the list, because an inbox may return shorter pages than requested.
    after = page.at(-1)?.id;
  } while (after !== undefined);
}

const PAGE = 500;

export function meets(record: InboxRecord, filter: EventFilter): boolean {
  const { group, id = '', attempts = 0, payload = [], except = [] } = filter;
  const { lastError, history, event } = record;
  const isLeftOut = {
    permanent: () => lastError?.startsWith('ERR_HANDLER_PERMANENT') === true,
    expired: () => history.some(({ result }) => result === 'lapsed'),
  };
  return (
    record.id.toLowerCase().includes(id.toLowerCase()) &&
    record.attempts >= attempts &&
    (group === undefined || toPlain(toErrorPattern(lastError)) === toPlain(group)) &&
    payload.every(([path, text]) => isText(valueAt(event?.payload, path), text)) &&
    !except.some((each) => isLeftOut[each]())
  );
}

function valueAt(payload: unknown, path: string): unknown {
  return path.split('.').reduce((at, name) => (isObject(at) ? at[name] : undefined), payload);
}

/** A number matches in any notation, such as `1.5` or `1.50`. */
export function isText(value: unknown, text: string): boolean {
  if (typeof value === 'number') return text.trim() !== '' && Number(text) === value;
  return value !== undefined && !isObject(value) && String(value) === text;
}
