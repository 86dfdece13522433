/** What movements are begun from, and how that is judged. */
import * as z from 'zod/mini';
import { CHAINS, type Chain } from './chains.js';
import { amount, milliseconds, oneOf, text } from './fields.js';
import { REDEEM_FAILURES, type RedeemFailure, TRANSFER_FAILURES, type TransferFailure } from './movements.js';
import { check } from './problem.js';

/** An inbound deposit. */
export interface AcceptInput {
  /** @default '100.00' */
  readonly amount?: string | undefined;
  /** Left out with `walletId`, whose chain it is. @default 'base' */
  readonly chain?: Chain | undefined;
  /** The wallet to credit. @default none: the institution's own account */
  readonly walletId?: string | undefined;
}

/** A movement to a target chain. */
export interface TransferInput {
  /** @default '100.00' */
  readonly amount?: string | undefined;
  /** The target chain. @default 'base' */
  readonly chain?: Chain | undefined;
  /** @default an address from the seed */
  readonly to?: string | undefined;
  /** @default none: it settles */
  readonly failsWith?: TransferFailure | undefined;
}

/** A transfer out of a wallet, under its limits. */
export interface SendInput {
  readonly amount: string;
  /** A target on the wallet's allowlist. */
  readonly to: string;
  /** The target chain. @default the wallet's */
  readonly chain?: Chain | undefined;
  /** @default none: it settles */
  readonly failsWith?: TransferFailure | undefined;
}

/** A fiat redemption. */
export interface RedeemInput {
  /** @default '100.00' */
  readonly amount?: string | undefined;
  /** The destination bank. @default 'First Example Bank' */
  readonly bank?: string | undefined;
  /** @default none: it completes */
  readonly failsWith?: RedeemFailure | undefined;
  /** How long after completing the bank sends it back. @default never */
  readonly returnsAfterMs?: number | undefined;
}

const BODY = 'must be a JSON object';
const chain = oneOf(CHAINS);
const failsTransfer = z.optional(oneOf(TRANSFER_FAILURES));

/** What each movement is begun from; unknown fields are refused, because a typo would go unnoticed. */
const inputs = {
  accept: z.strictObject(
    { amount: z._default(amount, '100.00'), chain: z.optional(chain), walletId: z.optional(text) },
    BODY,
  ),
  transfer: z.strictObject(
    {
      amount: z._default(amount, '100.00'),
      chain: z._default(chain, 'base'),
      to: z.optional(text),
      failsWith: failsTransfer,
    },
    BODY,
  ),
  send: z.strictObject({ amount, to: text, chain: z.optional(chain), failsWith: failsTransfer }, BODY),
  redeem: z.strictObject(
    {
      amount: z._default(amount, '100.00'),
      bank: z._default(text, 'First Example Bank'),
      failsWith: z.optional(oneOf(REDEEM_FAILURES)),
      returnsAfterMs: z.optional(milliseconds),
    },
    BODY,
  ),
};

/** Judges what a movement is begun from. */
export function checkMovement<Kind extends keyof typeof inputs>(kind: Kind, input: unknown) {
  return check(inputs[kind], input) as z.output<(typeof inputs)[Kind]>;
}
