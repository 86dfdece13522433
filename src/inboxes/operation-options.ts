/** The options of the operations, which operators type: the same rules in every inbox, before anything is read or removed. */
import { ConfigError } from '../core/errors.js';
import { integer, oneOf, readOptions, required, string } from '../core/options.js';
import { INBOX_STATES, type InboxOperations } from '../core/ports.js';

type OptionsOf<Name extends 'list' | 'prune'> = Parameters<InboxOperations[Name]>[0];

/** @throws {ConfigError} `ERR_CONFIG_INVALID` when an option is missing, unknown or makes no sense. */
export function readListOptions(options: OptionsOf<'list'>) {
  return readOptions('inbox.list', options, {
    state: required(oneOf(INBOX_STATES)),
    limit: required(integer()),
    after: string(),
    order: oneOf(['oldest', 'newest'], 'oldest'),
  });
}

/** The error of a list that is to continue after an event of which the inbox knows no place. */
export function unknownAfter(id: string): ConfigError {
  return new ConfigError(
    `inbox.list: \`after\` is ${JSON.stringify(id)}, and the inbox does not have that event, or not any more. Start again without \`after\`.`,
  );
}

/** @throws {ConfigError} `ERR_CONFIG_INVALID` when an option is missing, unknown or makes no sense. */
export function readPruneOptions(options: OptionsOf<'prune'>) {
  return readOptions('inbox.prune', options, {
    // Longer than a timer takes: 30 days are.
    olderThanMs: required(integer({ min: 0, max: Number.MAX_SAFE_INTEGER })),
  });
}
