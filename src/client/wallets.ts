/** Wallets: what is sent, what comes back, and the two calls for them (`service.md`, Wallet). */
import * as z from 'zod/mini';
import { ConfigError } from '../core/errors.js';
import { send } from './call.js';
import { ResponseError } from './errors.js';
import type { ClientRules } from './options.js';

/** The chains that the service names. */
export const CHAINS = ['tempo', 'solana', 'base', 'arc'] as const;
/** A chain that the service names; wallets live on fewer, see {@link WalletChain}. */
export type Chain = (typeof CHAINS)[number];

/** The chains on which wallets are created. */
export const WALLET_CHAINS = ['tempo', 'solana', 'base'] as const satisfies readonly Chain[];
/** A chain on which wallets are created. */
export type WalletChain = (typeof WALLET_CHAINS)[number];

/** Spending limits, enforced on every send. Strings, as sent: their unit and format are not specified. */
export interface Limits {
  readonly perTx: string;
  readonly daily: string;
}

/** A wallet as the service describes it; fields beyond these are kept on the object. */
export interface Wallet {
  readonly id: string;
  readonly agentId: string;
  /** As sent: the case of some chains' addresses carries meaning. */
  readonly address: string;
  readonly chain: WalletChain;
  readonly balance: string;
  readonly limits: Limits;
  readonly allowlist: readonly string[];
}

/** What a wallet is created from. */
export interface CreateWallet {
  readonly agentId: string;
  readonly label?: string;
  readonly chain: WalletChain;
  readonly limits: Limits;
  readonly allowlist: readonly string[];
}

/**
 * What changes; one of the two at least. Whether what is left out stays, and whether the allowlist replaces
 * or extends, is not specified: send both, and trust the wallet in the answer.
 */
export interface UpdateLimits {
  readonly limits?: Limits;
  readonly allowlist?: readonly string[];
}

/** The two calls for wallets; both reject with a `ClientError`, or the signal's reason. */
export interface Wallets {
  /** Creates a wallet. Sent again only where it surely never arrived: the service takes no idempotency key. */
  create(input: CreateWallet, options?: { readonly signal?: AbortSignal | undefined }): Promise<Wallet>;
  /** Changes what a wallet may spend, and answers it as it is now. */
  updateLimits(
    id: string,
    input: UpdateLimits,
    options?: { readonly signal?: AbortSignal | undefined },
  ): Promise<Wallet>;
}

const text = z.string().check(z.minLength(1));
const limits = z.object({ perTx: text, daily: text });
const allowlist = z.array(text);
const creation = z.object({
  agentId: text,
  label: z.optional(z.string()),
  chain: z.enum(WALLET_CHAINS),
  limits,
  allowlist,
});
const update = z.object({ limits: z.optional(limits), allowlist: z.optional(allowlist) }).check(
  z.refine((value) => value.limits !== undefined || value.allowlist !== undefined, {
    path: ['limits or allowlist'],
  }),
);
/** It only judges: the object that came goes on, so that fields beyond these stay what they were. */
const wallet = z.object({
  id: text,
  agentId: z.string(),
  address: z.string(),
  chain: z.enum(WALLET_CHAINS),
  balance: z.string(),
  limits: z.object({ perTx: z.string(), daily: z.string() }),
  allowlist: z.array(z.string()),
});

/** Makes the two calls. */
export function createWallets(rules: ClientRules): Wallets {
  return {
    async create(input, { signal } = {}) {
      assertInput(input, { where: 'wallets.create', schema: creation });
      const call = { method: 'POST', path: '/v1/wallets' } as const;
      const { value } = await send({ ...call, input, signal }, rules);
      return toWallet(value, { ...call, rules });
    },
    async updateLimits(id, input, { signal } = {}) {
      // A URL takes a segment of dots, encoded or not, for a step up.
      if (typeof id !== 'string' || id === '' || id === '.' || id === '..' || /\p{Cs}/u.test(id)) {
        throw new ConfigError("wallets.updateLimits takes the wallet's id, a text, first.");
      }
      assertInput(input, { where: 'wallets.updateLimits', schema: update });
      const call = { method: 'PATCH', path: `/v1/wallets/${encodeURIComponent(id)}/limits` } as const;
      const { value } = await send({ ...call, input, signal }, rules);
      return toWallet(value, { ...call, rules });
    },
  };
}

function assertInput(
  input: unknown,
  { where, schema }: { readonly where: string; readonly schema: z.ZodMiniType },
): void {
  const fields = wrongFields(schema, { value: input });
  if (fields.length === 0) return;
  throw new ConfigError(
    `${where}: these fields are missing or wrong: ${fields.join(', ')}. Amounts are texts, such as '10.50'; wallets live on ${WALLET_CHAINS.join(', ')}.`,
  );
}

function toWallet(
  value: unknown,
  { method, path, rules }: { readonly method: string; readonly path: string; readonly rules: ClientRules },
): Wallet {
  const fields = wrongFields(wallet, { value });
  if (fields.length === 0) return value as Wallet;
  const url = rules.baseUrl + path;
  throw new ResponseError(
    `${method} ${url} was carried out, but its answer is not a wallet: these fields are missing or wrong: ${fields.join(', ')}.`,
    { method, url, fields },
  );
}

function wrongFields(schema: z.ZodMiniType, { value }: { readonly value: unknown }): readonly string[] {
  const issues = z.safeParse(schema, value).error?.issues ?? [];
  return [...new Set(issues.map((issue) => issue.path.join('.') || 'the whole object'))];
}
