/** Faults that the fuzzer of `receive` must find: at least one for each kind of finding. They are used by its tests only. */
import {
  createReceiver,
  memoryInbox,
  type Receiver,
  type ReceiverOptions,
  SIGNATURE_HEADER,
  StablehooksError,
  sign,
  toWebhookResponse,
  type UnknownEvent,
  type WebhookRequest,
  type WebhookResponse,
} from 'stablehooks';
import { judgeEvent } from './expected.js';
import type { Parts, ReceiveFinding } from './receive.js';
import type { MakeReceiver } from './variants.js';

/** Parts with a fault, and what the fuzzer says. */
export interface ReceiveFault extends Parts {
  readonly kind: ReceiveFinding;
  readonly detail?: RegExp;
}

const replacing =
  (replace: (receiver: Receiver, options: ReceiverOptions) => Receiver['receive']): MakeReceiver =>
  (options) => {
    const receiver = createReceiver(options);
    return { ...receiver, receive: replace(receiver, options) };
  };

const changing = (change: (request: WebhookRequest) => WebhookRequest): MakeReceiver =>
  replacing((receiver) => (request) => receiver.receive(change(request)));

const concluding = (change: (outcome: Outcome, receiver: Receiver) => unknown): MakeReceiver =>
  replacing((receiver) => async (request) => {
    const outcome = await receiver.receive(request);
    return (await change(outcome, receiver)) as Outcome;
  });

type Outcome = Awaited<ReturnType<Receiver['receive']>>;
type Run = (event: UnknownEvent, context: unknown) => void | Promise<void>;

const handling =
  (change: (run: Run) => Run): MakeReceiver =>
  (options) => {
    const handlers = Object.entries(options.handlers).map(([type, run]) => [type, change(run as Run)]);
    return createReceiver({ ...options, handlers: Object.fromEntries(handlers) });
  };

/** A receiver that uses the event of a forged delivery. */
const believing = (
  use: (event: UnknownEvent, receiver: Receiver, options: ReceiverOptions) => unknown,
): MakeReceiver =>
  replacing((receiver, options) => async (request) => {
    let body: Uint8Array = new Uint8Array();
    const read = (bytes: Uint8Array) => {
      body = bytes;
      return bytes;
    };
    const outcome = await receiver.receive(requestWith(request, { body: read }));
    const event = judgeEvent(body);
    if (outcome.error?.code === 'ERR_SIGNATURE_MISMATCH' && event !== undefined) {
      await use(event, receiver, options);
    }
    return outcome;
  });

/** The request with another body or signature; what reading it throws stays. */
function requestWith(
  request: WebhookRequest,
  { body, signature }: { readonly body?: (bytes: Uint8Array) => Uint8Array; readonly signature?: string },
): WebhookRequest {
  return {
    ...request,
    header: (name) =>
      signature !== undefined && name === SIGNATURE_HEADER ? signature : request.header(name),
    async body(maxBytes) {
      const bytes = await request.body(maxBytes);
      return body === undefined ? bytes : body(bytes);
    },
  };
}

/** The signature header of requests that do not throw. */
function signatureOf(request: WebhookRequest): string | null | undefined {
  try {
    return request.header(SIGNATURE_HEADER);
  } catch {
    return undefined;
  }
}

/** Some of the secrets that a receiver was made with. */
const secretOf = ({ secret }: ReceiverOptions) =>
  typeof secret === 'function' ? undefined : [secret].flat().find((one) => typeof one === 'string');

const serializedAgain = (bytes: Uint8Array) => {
  try {
    return Buffer.from(JSON.stringify(JSON.parse(Buffer.from(bytes).toString())));
  } catch {
    return bytes;
  }
};

function withInbox(options: ReceiverOptions, change: (inbox: Store) => Partial<Store>): ReceiverOptions {
  const inbox = options.inbox as Store;
  return { ...options, inbox: { ...inbox, ...change(inbox), durable: inbox.durable } };
}

type Store = Exclude<ReceiverOptions['inbox'], undefined>;

const responding =
  (change: (response: WebhookResponse, outcome: Outcome) => Partial<WebhookResponse>) =>
  (outcome: Outcome) => {
    const response = toWebhookResponse(outcome);
    return { ...response, ...change(response, outcome) };
  };

const without = (header: string) => responding(({ headers: { [header]: _, ...headers } }) => ({ headers }));

const saying = (member: object) =>
  responding(({ body }) => ({ body: JSON.stringify({ ...JSON.parse(body), ...member }) }));

export const RECEIVE_FAULTS: Readonly<Record<string, ReceiveFault>> = {
  'a receiver that rejects': {
    make: replacing((receiver) => async (request) => {
      if (request.method === 'TRACE') throw new Error('no such method');
      return receiver.receive(request);
    }),
    kind: 'receive rejects',
  },
  'a receiver that never resolves': {
    make: replacing(
      (receiver) => async (request) =>
        request.method === '' ? new Promise<never>(() => undefined) : receiver.receive(request),
    ),
    kind: 'receive never resolves',
  },
  'a receiver that blocks its thread': {
    make: replacing((receiver) => (request) => {
      if (request.method === 'TRACE') Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
      return receiver.receive(request);
    }),
    kind: 'the process ends or takes too long',
  },
  'work after the answer that does not end': {
    make: replacing((receiver) => (request) => {
      request.waitUntil?.(new Promise(() => undefined));
      return receiver.receive(request);
    }),
    kind: 'what runs after the answer does not resolve',
  },
  'a verifier that accepts the first digits of a signature': {
    make: replacing((receiver, options) => async (request) => {
      const outcome = await receiver.receive(request);
      const [secret, given] = [secretOf(options), signatureOf(request)];
      if (outcome.error?.code !== 'ERR_SIGNATURE_MALFORMED' || secret === undefined || !given) return outcome;
      const signature = await sign(await request.body(32_768), { secret });
      return signature.startsWith(given) ? receiver.receive(requestWith(request, { signature })) : outcome;
    }),
    kind: 'another outcome',
    detail: / instead of ERR_SIGNATURE_MALFORMED$/,
  },
  'a verifier that takes white space off a signature': {
    make: changing((request) => {
      const given = signatureOf(request);
      return given ? requestWith(request, { signature: given.trim() }) : request;
    }),
    kind: 'another outcome',
    detail: / instead of ERR_SIGNATURE_MALFORMED$/,
  },
  'a signature over JSON that was serialized again': {
    make: changing((request) => requestWith(request, { body: serializedAgain })),
    kind: 'another outcome',
    detail: /ERR_SIGNATURE_MISMATCH instead of (handled|queued)/,
  },
  'a parser before the verification': {
    make: replacing((receiver) => async (request) => {
      let isJson = true;
      const check = (bytes: Uint8Array) => {
        try {
          JSON.parse(Buffer.from(bytes).toString());
        } catch {
          isJson = false;
        }
        return bytes;
      };
      const outcome = await receiver.receive(requestWith(request, { body: check }));
      if (isJson || outcome.error?.code !== 'ERR_SIGNATURE_MISMATCH') return outcome;
      const error = new StablehooksError('ERR_EVENT_MALFORMED', 'The body is not JSON.');
      return { kind: 'rejected', origin: 'push', error };
    }),
    kind: 'another outcome',
    detail: /ERR_EVENT_MALFORMED instead of ERR_SIGNATURE_MISMATCH/,
  },
  'a limit of the body that is not kept': {
    make: (options) => createReceiver({ ...options, maxBodyBytes: 1_000_000 }),
    kind: 'another outcome',
    detail: /instead of ERR_BODY_TOO_LARGE/,
  },
  'an inbox that recognizes no duplicate': {
    make: (options) => {
      let claims = 0;
      const claim: Store['claim'] = (event, claimed) => {
        claims += 1;
        return (options.inbox as Store).claim({ ...event, id: `${event.id} ${claims}` }, claimed);
      };
      return createReceiver(withInbox(options, () => ({ claim })));
    },
    kind: 'another outcome',
    detail: /(handled|queued) instead of duplicate/,
  },
  'an outcome of another kind': {
    make: concluding((outcome) => (outcome.kind === 'rejected' ? { ...outcome, kind: 'failed' } : outcome)),
    kind: 'another kind of outcome than its code has',
  },
  'an outcome that always names the first secret': {
    make: concluding((outcome) => ({ ...outcome, secretIndex: 0 })),
    kind: 'the outcome names another secret',
  },
  'an outcome whose event has no payload': {
    make: concluding(({ event, ...outcome }) => ({ ...outcome, event: { ...event, payload: {} } })),
    kind: 'the outcome has another event than JSON.parse',
  },
  'a handler that runs for a forged event, after the answer': {
    make: believing((event, _receiver, { handlers }) => {
      const run = handlers[event.type as 'redeem.failed'] as Run | undefined;
      setImmediate(() => {
        try {
          run?.(event, {});
        } catch {
          // Some of the handlers throw.
        }
      });
    }),
    kind: 'a handler got an event of a refused delivery',
  },
  'an inbox that gets a forged event': {
    make: believing((event, { inbox }) => inbox.record([event], { dueInMs: 0, origin: 'push' })),
    kind: 'the inbox got an event of a refused delivery',
  },
  'a queue that gets a forged event': {
    make: believing((event, _receiver, { queue }) => queue?.enqueue(event)),
    kind: 'the queue got an event of a refused delivery',
  },
  'a handler that runs twice': {
    make: handling((run) => (event, context) => {
      run(event, context);
      return run(event, context);
    }),
    kind: 'a handler got the event another number of times',
    detail: /2 instead of 1/,
  },
  'a handler that runs again for every second duplicate': {
    make: (options) => {
      let duplicates = 0;
      return concluding(async (outcome) => {
        if (outcome.kind !== 'duplicate') return outcome;
        duplicates += 1;
        const run = options.handlers[outcome.event?.type as 'redeem.failed'] as Run | undefined;
        if (duplicates % 2 === 0) await run?.(outcome.event as UnknownEvent, {});
        return outcome;
      })(options);
    },
    kind: 'a handler got the event another number of times',
    detail: /1 instead of 0/,
  },
  'an inbox that is not asked': {
    make: (options) => createReceiver(withInbox(options, () => memoryInbox())),
    kind: 'the inbox got the event another number of times',
    detail: /0 instead of 1/,
  },
  'a queue that loses events': {
    make: (options) =>
      createReceiver(options.queue ? { ...options, queue: { enqueue: async () => undefined } } : options),
    kind: 'the queue got the event another number of times',
    detail: /0 instead of 1/,
  },
  'a handler that gets characters of another encoding': {
    make: handling(
      (run) => (event, context) =>
        run(JSON.parse(Buffer.from(JSON.stringify(event)).toString('latin1')), context),
    ),
    kind: 'a handler got another event than JSON.parse',
  },
  'an inbox that stores an event without its payload': {
    make: (options) =>
      createReceiver(
        withInbox(options, ({ claim }) => ({
          claim: (event, claimed) =>
            claim(event, { ...claimed, json: JSON.stringify({ ...event, payload: {} }) }),
        })),
      ),
    kind: 'the inbox got another event than JSON.parse',
  },
  'a queue that gets an event without its payload': {
    make: (options) => {
      const { queue } = options;
      if (queue === undefined) return createReceiver(options);
      return createReceiver({
        ...options,
        queue: { enqueue: (event) => queue.enqueue({ ...event, payload: {} }) },
      });
    },
    kind: 'the queue got another event than JSON.parse',
  },
  'a response that is always 200': {
    respond: responding(() => ({ status: 200 })),
    kind: 'the response has another status',
  },
  'a response that always says handled': {
    respond: saying({ outcome: 'handled' }),
    kind: 'the response names another outcome',
  },
  'a response that tells which senders exist': {
    respond: responding(({ body }, { error }) => ({
      body: body.replace(/"code":"[^"]*"/, `"code":"${error?.code}"`),
    })),
    kind: 'the response has another code',
  },
  'a problem that is sent as plain JSON': {
    respond: responding(({ headers }) => ({ headers: { ...headers, 'content-type': 'application/json' } })),
    kind: 'the response has another content-type',
  },
  'a 503 that names no time': { respond: without('retry-after'), kind: '503 without Retry-After' },
  'a 405 that names no method': { respond: without('allow'), kind: '405 without Allow' },
  'a response that holds the event': {
    respond: responding(({ headers }, { event }) => ({
      headers: { ...headers, 'x-event': JSON.stringify(event) },
    })),
    kind: 'the response contains something confidential',
  },
  'a line of the log that quotes the body': {
    make: replacing((receiver, { logger }) => async (request) => {
      const quote = (bytes: Uint8Array) => {
        logger?.warn(`got ${Buffer.from(bytes).toString()}`);
        return bytes;
      };
      return receiver.receive(requestWith(request, { body: quote }));
    }),
    kind: 'a line of the log contains something confidential',
  },
  'a line of the log that quotes the signature': {
    make: replacing((receiver, { logger }) => async (request) => {
      logger?.warn(`signature ${signatureOf(request)}`);
      return receiver.receive(request);
    }),
    kind: 'a line of the log contains something confidential',
  },
  'an error that quotes the secret': {
    make: replacing((receiver, options) => async (request) => {
      const outcome = await receiver.receive(request);
      const { error } = outcome;
      if (error !== undefined) error.cause = new Error('inner', { cause: new Error(`${secretOf(options)}`) });
      return outcome;
    }),
    kind: 'an error contains something confidential',
  },
};
