export { ConfigError, StablehooksError } from '../core/errors.js';
export { type Client, createClient } from './client.js';
export type { EventProblem } from './elements.js';
export { ApiError, type ClientError, ConnectionError, ResponseError } from './errors.js';
export type { EventList, EventQuery, Events } from './events.js';
export type { ClientOptions } from './options.js';
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
