/** `createClient`: options in, the calls out. */
import { createEvents, type Events } from './events.js';
import { type ClientOptions, readOptions } from './options.js';
import { createWallets, type Wallets } from './wallets.js';

/** The three endpoints of the service. */
export interface Client {
  readonly wallets: Wallets;
  readonly events: Events;
}

/**
 * Makes a client. It opens nothing until it is called, and needs no closing.
 *
 * Any 2xx is success. GET and PATCH are sent again on connection errors, timeouts, 429 and 5xx; POST only
 * where it surely never arrived. Redirects are not followed.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID`, naming the option.
 *
 * @example
 * ```ts
 * const client = createClient({ baseUrl: 'https://api.example.com', token: () => readToken() });
 * const events = await client.events.list({ type: 'transfer.settled', limit: 100 });
 * ```
 */
export function createClient(options: ClientOptions): Client {
  const rules = readOptions(options);
  return { wallets: createWallets(rules), events: createEvents(rules) };
}
