import { ConfigError } from '../core/errors.js';
import type { Logger } from '../core/ports.js';
import type { Slots } from '../flow/slots.js';
import type { InFlight } from './in-flight.js';
import type { CallHandler, RunStep } from './layers.js';
import type { ReceiverSettings } from './options.js';
import type { Redriver } from './redriver.js';
import type { Report } from './report.js';
import type { Store } from './store.js';
import type { Tally } from './tally.js';
import type { Dispatch } from './work.js';

export interface CoreParts {
  readonly settings: ReceiverSettings;
  readonly logger: Logger;
  readonly store: Store;
  readonly tally: Tally;
  readonly report: Report;
  readonly inFlight: InFlight;
  readonly redriver: Redriver;
  readonly slots: Slots | undefined;
  readonly callHandler: CallHandler;
  readonly runStep: RunStep;
}

export interface ReceiverParts extends CoreParts {
  readonly flows: Flows;
}

export interface Flows {
  readonly deliver: Dispatch;
  readonly accept: Dispatch;
  readonly handle: Dispatch;
}

/** A registered symbol, because both module formats of this package must share it. */
const PARTS = Symbol.for('stablehooks.parts');

interface Holder {
  readonly [PARTS]?: { readonly owner: unknown; readonly parts: ReceiverParts };
}

/** Frozen, because adapters call the parts directly, so a replaced method would never run. */
export function withParts<Receiver extends object>(receiver: Receiver, parts: ReceiverParts): Receiver {
  return Object.freeze(Object.assign(receiver, { [PARTS]: { owner: receiver, parts } }));
}

/** Rejects copies and proxies of a receiver. */
export function partsOf(where: string, receiver: unknown): ReceiverParts {
  const held = (receiver as Holder | null | undefined)?.[PARTS];
  if (held !== undefined && held.owner === receiver) return held.parts;
  throw new ConfigError(
    `${where}: \`receiver\` must be a receiver created by createReceiver, or a function that returns one. To wrap a receiver, pass a layer in its \`use\` option.`,
  );
}
