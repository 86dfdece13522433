import { inboxWith, readOptions } from '../core/options.js';
import type { InboxFilter, InboxOperations, InboxRecord } from '../core/ports.js';

/**
 * Reads the records that match a filter page by page, in the order in which their events were received. No record is
 * returned twice, but a record can be omitted if its event changes state while the pages are being read.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when `inbox` isn't an inbox.
 * @throws the error that `inbox.list` throws, such as a `ConfigError` when a non-durable inbox no longer has the last
 * record of a page.
 */
export async function* recordPages(
  inbox: Pick<InboxOperations, 'list'>,
  options: InboxFilter & { readonly limit: number },
): AsyncGenerator<readonly InboxRecord[], void, undefined> {
  readOptions('recordPages', { inbox }, { inbox: inboxWith('list') });
  let after: string | undefined;
  for (;;) {
    const page = await inbox.list({ ...options, after });
    after = page.at(-1)?.id;
    // A page that is shorter than requested need not be the last one, because the inbox may have its own maximum.
    if (after === undefined) return;
    yield page;
  }
}
