import { createEvents, type Events } from './events.js';
import { createSend } from './http.js';
import { type ClientOptions, toSettings } from './options.js';
import { createWallets, type Wallets } from './wallets.js';

/** The calls of the API. */
export interface Client {
  readonly wallets: Wallets;
  readonly events: Events;
}

/**
 * Creates a client. It opens no connection before the first call and needs no `close`.
 *
 * Any 2xx is success. GET and PATCH are retried after connection errors, timeouts, 408, 429 and 5xx. POST is retried only if
 * the request certainly did not arrive. Redirects are not followed.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID`, naming the option.
 */
export function createClient(options: ClientOptions): Client {
  const send = createSend(toSettings(options));
  return { wallets: createWallets(send), events: createEvents(send) };
}
