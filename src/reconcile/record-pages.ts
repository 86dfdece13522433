import { ConfigError } from '../core/errors.js';
import type { InboxOperations, InboxRecord, InboxState } from '../core/ports.js';

/**
 * Reads the records of one state page by page, the first received first, each record once. The last page is empty. An
 * event that changes its state meanwhile can be left out.
 *
 * A non-durable inbox can forget the event after which to continue. The state is then read from its beginning again,
 * and records that were read before are skipped.
 *
 * @throws the error of `inbox.list`.
 */
export async function* recordPages(
  inbox: Pick<InboxOperations, 'list'>,
  options: { readonly state: InboxState; readonly limit: number },
): AsyncGenerator<readonly InboxRecord[], void, undefined> {
  const isNew = rememberLatest();
  let after: string | undefined;
  let isNearer = false;
  for (;;) {
    let page: readonly InboxRecord[];
    try {
      page = await inbox.list({ ...options, after });
    } catch (error) {
      // Without a new record since the last restart, it would never end.
      if (!isNearer || !(error instanceof ConfigError)) throw error;
      after = undefined;
      isNearer = false;
      continue;
    }
    const records = page.filter(isNew);
    isNearer ||= records.length > 0;
    yield records;
    const end = page.at(-1);
    // Not a page that is shorter than asked for: the inbox can have a maximum of its own.
    if (end === undefined) return;
    after = end.id;
  }
}

/** Whether a record, of a list that is read from the oldest on, was not read before. */
function rememberLatest(): (record: InboxRecord) => boolean {
  let latest = Number.NEGATIVE_INFINITY;
  // Only the inbox knows the order of the records of one ms.
  let ids = new Set<string>();
  return ({ id, receivedAt }) => {
    if (receivedAt < latest || (receivedAt === latest && ids.has(id))) return false;
    if (receivedAt > latest) ids = new Set();
    latest = receivedAt;
    ids.add(id);
    return true;
  };
}
