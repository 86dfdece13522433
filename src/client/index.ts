/** `stablehooks/client`: the three endpoints of `service.md`, typed, checked both ways, retried where that is safe. */
export { ConfigError, StablehooksError, UnavailableError } from '../core/errors.js';
export { type Client, createClient } from './client.js';
export { ApiError, type ClientError, ConnectionError, ResponseError } from './errors.js';
export type { EventPage, EventProblem, EventQuery, Events } from './events.js';
export type { ClientOptions, Retry } from './options.js';
export type { TokenSource } from './token.js';
export {
  CHAINS,
  type Chain,
  type CreateWallet,
  type Limits,
  type UpdateLimits,
  WALLET_CHAINS,
  type Wallet,
  type WalletChain,
  type Wallets,
} from './wallets.js';
