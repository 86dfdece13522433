/** The types that openapi-typescript makes of `openapi.json` and those of the client are assignable both ways. */
import type { UnknownEvent, WebhookEvent } from 'stablehooks';
import type { CreateWallet, EventQuery, Limits, UpdateLimits, Wallet, WalletChain } from 'stablehooks/client';
import type { components, operations, webhooks } from './service.js';

type Schemas = components['schemas'];

/** Not `any`, which is assignable to everything. */
type Real<Type> = 0 extends 1 & Type ? never : Type;
type Same<Left, Right> = [Real<Left>] extends [Real<Right>]
  ? [Real<Right>] extends [Real<Left>]
    ? true
    : false
  : false;

type Body<Message extends { readonly content: { readonly 'application/json': unknown } }> =
  Message['content']['application/json'];
type Delivered<Type extends keyof webhooks> = webhooks[Type] extends {
  readonly post: { readonly requestBody: { readonly content: { readonly 'application/json': infer Event } } };
}
  ? Event
  : never;
type Input<Name extends 'createWallet' | 'updateWalletLimits'> = Body<operations[Name]['requestBody']>;

type Wallets = operations['createWallet']['responses']['2XX'];

const same: {
  readonly chain: Same<Schemas['WalletChain'], WalletChain>;
  readonly limits: Same<Schemas['Limits'], Limits>;
  readonly wallet: Same<Schemas['Wallet'], Wallet>;
  readonly created: Same<Body<Wallets>, Wallet>;
  readonly updated: Same<Body<operations['updateWalletLimits']['responses']['200']>, Wallet>;
  readonly create: Same<Input<'createWallet'>, CreateWallet>;
  readonly update: Same<Input<'updateWalletLimits'>, UpdateLimits>;
  readonly query: Same<
    NonNullable<operations['listWebhookEvents']['parameters']['query']>,
    Omit<EventQuery, 'signal'>
  >;
  readonly list: Same<Body<operations['listWebhookEvents']['responses']['200']>, readonly UnknownEvent[]>;
  readonly webhooks: {
    readonly [Type in keyof webhooks]: Type extends WebhookEvent['type']
      ? Same<Delivered<Type>, WebhookEvent<Type>>
      : false;
  };
} = {
  chain: true,
  limits: true,
  wallet: true,
  created: true,
  updated: true,
  create: true,
  update: true,
  query: true,
  list: true,
  webhooks: {
    'accept.confirmed': true,
    'transfer.settled': true,
    'transfer.failed': true,
    'redeem.completed': true,
    'redeem.failed': true,
  },
};

/** No type is without a webhook. */
export const complete: Same<keyof webhooks, WebhookEvent['type']> = true;
/** A difference in one field is noticed. */
export const differs: Same<Schemas['Wallet'], Omit<Wallet, 'balance'> & { readonly balance: number }> = false;
export default same;
