import { inboxWith, readOptions } from '../core/options.js';
import type { InboxFilter, InboxOperations, InboxRecord } from '../core/ports.js';

/**
 * Reads the records that match a filter page by page, in the order in which they were received. No record is returned
 * twice, but a record may be left out if its event changes state in the meantime.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when `inbox` isn't an inbox.
 * @throws the error of `inbox.list`: a `ConfigError` when a non-durable inbox has forgotten the last record of a
 * page.
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
    // Not a page that is shorter than asked for: the inbox may have its own maximum.
    if (after === undefined) return;
    yield page;
  }
}
