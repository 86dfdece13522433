import { inboxWith, readOptions } from '../core/options.js';
import type { InboxFilter, InboxOperations, InboxRecord } from '../core/ports.js';

/**
 * Reads the records that a filter selects page by page, the first received first, each record once. An event that changes its
 * state meanwhile may be left out.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when `inbox` is not an inbox.
 * @throws the error of `inbox.list`: a `ConfigError` when a non-durable inbox has forgotten the last record of a page.
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
