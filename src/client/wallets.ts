import * as z from 'zod/mini';
import { ConfigError } from '../core/errors.js';
import { type RequestLine, ResponseError } from './errors.js';
import type { Send } from './http.js';

/** The chains that the service names. */
export const CHAINS = ['tempo', 'solana', 'base', 'arc'] as const;
/** A chain that the service names. Wallets exist on fewer chains, see {@link WalletChain}. */
export type Chain = (typeof CHAINS)[number];

/** The chains on which wallets are created. */
export const WALLET_CHAINS = ['tempo', 'solana', 'base'] as const satisfies readonly Chain[];
/** A chain on which wallets are created. */
export type WalletChain = (typeof WALLET_CHAINS)[number];

/** Spending limits, enforced on every send. Strings as sent: their unit and format are not specified. */
export interface Limits {
  readonly perTx: string;
  readonly daily: string;
}

/** A wallet as the service describes it. Fields beyond these are kept on the object. */
export interface Wallet {
  readonly id: string;
  readonly agentId: string;
  /** As sent: on some chains the case of an address matters. */
  readonly address: string;
  readonly chain: WalletChain;
  readonly balance: string;
  readonly limits: Limits;
  readonly allowlist: readonly string[];
}

/** What a wallet is created from. */
export interface CreateWallet {
  readonly agentId: string;
  readonly label?: string | undefined;
  readonly chain: WalletChain;
  readonly limits: Limits;
  readonly allowlist: readonly string[];
}

/**
 * What changes; at least one of the two. It is not specified whether a field that is left out stays, nor
 * whether the allowlist replaces or extends: send both, and rely on the wallet in the answer.
 */
export interface UpdateLimits {
  readonly limits?: Limits | undefined;
  readonly allowlist?: readonly string[] | undefined;
}

/** The calls for wallets. Both reject with a `ClientError` or the signal's reason. */
export interface Wallets {
  /** Creates a wallet. Sent again only if it certainly did not arrive: the service takes no idempotency key. */
  create(input: CreateWallet, options?: { readonly signal?: AbortSignal | undefined }): Promise<Wallet>;
  /** Changes what a wallet can spend, and resolves to the wallet after the change. */
  updateLimits(
    id: string,
    input: UpdateLimits,
    options?: { readonly signal?: AbortSignal | undefined },
  ): Promise<Wallet>;
}

const nonEmpty = z.string().check(z.minLength(1));

/** A wallet's spending limits in an answer of the API. Keys beyond these are kept. */
export const limitsSchema = z.looseObject({
  perTx: z.string(),
  daily: z.string(),
}) satisfies z.ZodMiniType<Limits>;

/** A wallet in an answer of the API. Keys beyond these are kept. */
export const walletSchema = z.looseObject({
  id: nonEmpty,
  agentId: z.string(),
  address: z.string(),
  chain: z.enum(WALLET_CHAINS),
  balance: z.string(),
  limits: limitsSchema,
  allowlist: z.array(z.string()),
}) satisfies z.ZodMiniType<Wallet>;

// What is sent must not be empty; what the service answers can be.
const limitsInput = z.extend(limitsSchema, { perTx: nonEmpty, daily: nonEmpty });
const allowlistInput = z.array(nonEmpty);
const createInput = z.object({
  agentId: nonEmpty,
  label: z.optional(z.string()),
  chain: z.enum(WALLET_CHAINS),
  limits: limitsInput,
  allowlist: allowlistInput,
});
const updateInput = z
  .object({ limits: z.optional(limitsInput), allowlist: z.optional(allowlistInput) })
  .check(
    z.refine((value) => value.limits !== undefined || value.allowlist !== undefined, {
      path: ['limits or allowlist'],
    }),
  );

export function createWallets(send: Send): Wallets {
  return {
    async create(input, { signal } = {}) {
      checkInput(input, createInput, 'wallets.create');
      const { value, ...line } = await send({ method: 'POST', path: '/v1/wallets', input, signal });
      return toWallet(value, line);
    },
    async updateLimits(id, input, { signal } = {}) {
      // URL parsers resolve a segment of dots, encoded or not, to the parent path.
      if (typeof id !== 'string' || id === '' || id === '.' || id === '..' || /\p{Cs}/u.test(id)) {
        throw new ConfigError('wallets.updateLimits: the first argument must be the id of a wallet.');
      }
      checkInput(input, updateInput, 'wallets.updateLimits');
      const path = `/v1/wallets/${encodeURIComponent(id)}/limits`;
      const { value, ...line } = await send({ method: 'PATCH', path, input, signal });
      return toWallet(value, line);
    },
  };
}

function checkInput(input: unknown, schema: z.ZodMiniType, where: string): void {
  const fields = wrongFields(input, schema);
  if (fields.length === 0) return;
  throw new ConfigError(
    `${where}: these fields are missing or wrong: ${fields.join(', ')}. Amounts are strings, such as '10.50'. Wallets exist on ${WALLET_CHAINS.join(', ')}.`,
  );
}

/** Returns the value itself and not what the schema returns, so that the fields beyond it keep their order. */
function toWallet(value: unknown, { method, url }: RequestLine): Wallet {
  const fields = wrongFields(value, walletSchema);
  if (fields.length === 0) return value as Wallet;
  throw new ResponseError(
    `The service carried out ${method} ${url}, but its answer is not a wallet. These fields are missing or wrong: ${fields.join(', ')}.`,
    { method, url, fields },
  );
}

function wrongFields(value: unknown, schema: z.ZodMiniType): readonly string[] {
  const issues = z.safeParse(schema, value).error?.issues ?? [];
  return [...new Set(issues.map((issue) => issue.path.join('.') || 'the whole object'))];
}
