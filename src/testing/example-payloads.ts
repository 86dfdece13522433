import * as z from 'zod/mini';
import type { EventType } from '../core/events.js';

/** Decimal amounts stay strings: a number would round them. */
const amount = z.string().check(z.regex(/^\d+(\.\d+)?$/));
const time = z.iso.datetime();
const movement = { amount, currency: z.string(), chain: z.string(), wallet_id: z.optional(z.string()) };
const transfer = { transfer_id: z.string(), ...movement, from: z.string(), to: z.string() };
const redemption = { redeem_id: z.string(), ...movement, bank: z.string() };

/**
 * Schemas of the example payloads. They are examples only: the service does not specify its payloads, so check your own
 * schemas against real events.
 *
 * `exampleEvent`, the sandbox and `stablehooks trigger` create payloads of this form.
 *
 * @example
 * ```ts
 * createReceiver({
 *   secret,
 *   handlers: {
 *     'transfer.settled': withPayload(examplePayloads['transfer.settled'], ({ payload }) => book(payload.amount)),
 *   },
 * });
 * ```
 */
export const examplePayloads = {
  'accept.confirmed': z.object({
    accept_id: z.string(),
    ...movement,
    from: z.string(),
    to: z.string(),
    tx_hash: z.string(),
    confirmed_at: time,
  }),
  'transfer.settled': z.object({ ...transfer, tx_hash: z.string(), settled_at: time }),
  'transfer.failed': z.object({
    ...transfer,
    reason: z.enum(['compliance', 'routing', 'submission']),
    failed_at: time,
  }),
  'redeem.completed': z.object({ ...redemption, completed_at: time }),
  'redeem.failed': z.object({ ...redemption, reason: z.enum(['bank', 'compliance']), failed_at: time }),
} satisfies Readonly<Record<EventType, z.ZodMiniType>>;

/** The example payload of an event type. */
export type ExamplePayload<Type extends EventType> = z.output<(typeof examplePayloads)[Type]>;
