/** The adapter contract: what every server that mounts the contract receiver must answer over HTTP. */
import { bodyCases } from './body-cases.js';
import { connectionCases } from './connection-cases.js';
import type { ContractCase } from './contract-sender.js';
import { eventCases } from './event-cases.js';
import { handlerCases } from './handler-cases.js';
import { signatureCases } from './signature-cases.js';

/**
 * Every case, as data for any test runner. A case looks only at replies, so the server may be in another
 * process or runtime; it mounts `createContractReceiver()` for every method at the URL. Cases make their own
 * events, and may run in any order and at the same time.
 *
 * @example
 * ```ts
 * for (const { name, run } of adapterContract) test(name, () => run({ url }));
 * ```
 */
export const adapterContract: readonly ContractCase[] = [
  ...signatureCases,
  ...bodyCases,
  ...eventCases,
  ...handlerCases,
  ...connectionCases,
];
