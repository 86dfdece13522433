import { createEvents, type Events } from './events.js';
import { createSend } from './http.js';
import { type ClientOptions, toSettings } from './options.js';
import { createWallets, type Wallets } from './wallets.js';

/** The API calls, grouped by resource. */
export interface Client {
  readonly wallets: Wallets;
  readonly events: Events;
}

/**
 * Creates a client. The client opens no connection before its first call and doesn't need to be closed.
 *
 * Any 2xx status counts as success. GET and PATCH requests are retried after connection errors, after timeouts, and after
 * the statuses 408, 429 and 5xx. A POST request is retried only if it is certain that the request didn't reach the service.
 * Redirects aren't followed.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when an option is missing, unknown or invalid.
 */
export function createClient(options: ClientOptions): Client {
  const send = createSend(toSettings(options));
  return { wallets: createWallets(send), events: createEvents(send) };
}
