import * as z from 'zod/mini';
import { ConfigError } from '../core/errors.js';
import { ResponseError, type ResponseFacts } from './errors.js';
import type { Send } from './http.js';

/** The chains of the service. */
export const CHAINS = ['tempo', 'solana', 'base', 'arc'] as const;
/** A chain of the service. Wallets exist on fewer chains, see {@link WalletChain}. */
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

/** A wallet of the service. Further fields are kept on the object. */
export interface Wallet {
  readonly id: string;
  readonly agentId: string;
  /** As sent: on some chains the case of an address matters. */
  readonly address: string;
  /** One of {@link WALLET_CHAINS}, or a chain that is newer than this release. */
  readonly chain: WalletChain | (string & {});
  readonly balance: string;
  readonly limits: Limits;
  readonly allowlist: readonly string[];
}

/** The input of `create`. Other fields are refused. */
export interface CreateWallet {
  readonly agentId: string;
  readonly label?: string | undefined;
  readonly chain: WalletChain;
  readonly limits: Limits;
  readonly allowlist: readonly string[];
}

/**
 * A change of `limits`, `allowlist` or both. Other fields are refused. The service does not specify whether an omitted
 * field stays, nor whether the allowlist replaces or extends: send both, and rely on the wallet in the answer.
 */
export interface UpdateLimits {
  readonly limits?: Limits | undefined;
  readonly allowlist?: readonly string[] | undefined;
}

interface CallOptions {
  readonly signal?: AbortSignal | undefined;
}

/** The calls for wallets. Both reject with a `ClientError` or the signal's reason. */
export interface Wallets {
  /** Creates a wallet. Retried only if it certainly did not arrive, because the service accepts no idempotency key. */
  create(input: CreateWallet, options?: CallOptions): Promise<Wallet>;
  /** Changes the limits or the allowlist of a wallet, and resolves to the wallet after the change. */
  updateLimits(id: string, input: UpdateLimits, options?: CallOptions): Promise<Wallet>;
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
  chain: z.string(),
  balance: z.string(),
  limits: limitsSchema,
  allowlist: z.array(z.string()),
}) satisfies z.ZodMiniType<Wallet>;

// The service may ignore a misspelt field silently, so input is strict. Answers can contain empty and newer fields.
const limitsInput = z.strictObject({ perTx: nonEmpty, daily: nonEmpty });
const createInput = z.strictObject({
  agentId: nonEmpty,
  label: z.optional(z.string()),
  chain: z.enum(WALLET_CHAINS),
  limits: limitsInput,
  allowlist: z.array(nonEmpty),
}) satisfies z.ZodMiniType<CreateWallet>;
const updateInput = z.strictObject({
  limits: z.optional(limitsInput),
  allowlist: z.optional(z.array(nonEmpty)),
}) satisfies z.ZodMiniType<UpdateLimits>;

export function createWallets(send: Send): Wallets {
  return {
    async create(input, { signal } = {}) {
      checkInput('wallets.create', createInput, input);
      const { value, ...facts } = await send({ method: 'POST', path: '/v1/wallets', input, signal });
      return toWallet(value, facts);
    },
    async updateLimits(id, input, { signal } = {}) {
      // URL parsers resolve a segment of dots, even encoded, to the parent path.
      if (['', '.', '..'].includes(id)) {
        throw new ConfigError('wallets.updateLimits: the first argument must be the id of a wallet.');
      }
      checkInput('wallets.updateLimits', updateInput, input);
      if (input.limits === undefined && input.allowlist === undefined) {
        throw new ConfigError('wallets.updateLimits: pass `limits`, `allowlist` or both.');
      }
      const path = `/v1/wallets/${encodeURIComponent(id)}/limits`;
      const { value, ...facts } = await send({ method: 'PATCH', path, input, signal });
      return toWallet(value, facts);
    },
  };
}

/** @throws {ConfigError} `ERR_CONFIG_INVALID`, naming the fields. */
function checkInput(where: string, schema: z.ZodMiniType, input: unknown): void {
  const fields = wrongFields(schema, input);
  if (fields.length === 0) return;
  throw new ConfigError(
    `${where}: these fields are unknown, missing or wrong: ${fields.map((field) => `\`${field}\``).join(', ')}.`,
  );
}

/** Returns the value itself, because the output of the schema would reorder the fields beyond it. */
function toWallet(value: unknown, facts: ResponseFacts): Wallet {
  const fields = wrongFields(walletSchema, value);
  if (fields.length === 0) return value as Wallet;
  throw new ResponseError(
    `The service carried out ${facts.method} ${facts.url}, but its answer is not a wallet. These fields are missing or wrong: ${fields.join(', ')}. \`answer\` of this error contains the answer.`,
    { ...facts, fields },
  );
}

/** The paths of unknown, missing and wrong fields. */
function wrongFields(schema: z.ZodMiniType, value: unknown): readonly string[] {
  const paths = (z.safeParse(schema, value).error?.issues ?? []).flatMap((issue) =>
    issue.code === 'unrecognized_keys' ? issue.keys.map((key) => [...issue.path, key]) : [issue.path],
  );
  return [...new Set(paths.map((path) => path.join('.') || 'the whole object'))];
}
