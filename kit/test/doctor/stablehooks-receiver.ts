import type { RequestListener } from 'node:http';
import { createReceiver, type Handlers, type ReceiverOptions, type UnknownPayload } from 'stablehooks';
import { toNodeHandler } from 'stablehooks/node';

/** Throws when doctor asks for it. */
export const failingOnRequest = ({ payload }: { readonly payload: UnknownPayload }) => {
  if (payload['doctor'] === 'failing-handler') throw new Error('asked to fail');
};

/** Prints nothing: every refusal would be a line among the results of the tests. */
export const QUIET = { warn: () => undefined, error: () => undefined } as const;

type Options = Omit<ReceiverOptions, 'handlers'> & { readonly handlers?: Handlers };

/** A stablehooks receiver that is right, apart from the given options. */
export function createListener({
  handlers = { 'transfer.settled': failingOnRequest },
  ...options
}: Options): RequestListener {
  return toNodeHandler(createReceiver({ logger: QUIET, ...options, handlers }));
}
