/** Receivers with a fault for each finding of the fuzzer of `receive`, by the finding. They are used by its tests only. */
import {
  createReceiver,
  memoryInbox,
  type Outcome,
  type ReceiverOptions,
  StablehooksError,
  sign,
  toWebhookResponse,
  type UnknownEvent,
  type WebhookRequest,
  type WebhookResponse,
} from 'stablehooks';
import { judgeEvent } from './expected.js';
import type { Parts } from './receive.js';

/** A delivery that a right receiver has ended. */
interface Delivery {
  readonly outcome: Outcome;
  readonly body: Uint8Array;
  readonly request: WebhookRequest;
  readonly options: ReceiverOptions;
}

interface Fault {
  readonly before?: (request: WebhookRequest) => unknown;
  /** Changes the body. */
  readonly body?: (body: Uint8Array, options: ReceiverOptions) => Uint8Array;
  /** Changes the outcome. */
  readonly after?: (delivery: Delivery) => unknown;
}

const receiving = ({ before, body: change, after }: Fault): Parts => ({
  make(options) {
    const receiver = createReceiver(options);
    const receive = async (request: WebhookRequest): Promise<Outcome> => {
      await before?.(request);
      let body: Uint8Array = new Uint8Array();
      const read = async (maxBytes: number) => {
        body = await request.body(maxBytes);
        return change === undefined ? body : change(body, options);
      };
      const outcome = await receiver.receive({ ...request, body: read });
      const changed = (await after?.({ outcome, body, request, options })) as Partial<Outcome>;
      return { ...outcome, ...changed } as Outcome;
    };
    return { ...receiver, receive };
  },
});

const after = (change: Exclude<Fault['after'], undefined>) => receiving({ after: change });

const configured = (change: (options: ReceiverOptions) => Partial<ReceiverOptions> | undefined): Parts => ({
  make: (options) => createReceiver({ ...options, ...change(options) }),
});

type Claim = ReturnType<typeof memoryInbox>['claim'];

const claiming = (change: (claim: Claim) => Claim) =>
  configured(({ inbox = memoryInbox() }) => ({ inbox: { ...inbox, claim: change(inbox.claim) } }));

const responding = (
  change: (response: WebhookResponse, outcome: Outcome) => Partial<WebhookResponse>,
): Parts => ({
  respond(outcome) {
    const response = toWebhookResponse(outcome);
    return { ...response, ...change(response, outcome) };
  },
});

const textOf = (value: unknown) => JSON.stringify(value);
const withoutPayload = (event: UnknownEvent) => ({ ...event, payload: {} });

const keyOf = ({ secret }: ReceiverOptions) =>
  Array.isArray(secret) ? secret.find((one) => typeof one === 'string') : undefined;

const run = (event: UnknownEvent, { handlers }: ReceiverOptions) =>
  (handlers[event.type as 'redeem.failed'] as ((event: UnknownEvent) => unknown) | undefined)?.(event);

const never = new Promise<never>(() => undefined);
let claims = 0;

export const RECEIVE_FAULTS = {
  'no such method': receiving({
    before({ method }) {
      if (method === 'TRACE') throw new Error('no such method');
    },
  }),
  'the process ended without an answer': receiving({
    before({ method }) {
      if (method === 'TRACE') Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
    },
  }),
  // Some deliveries are not answered, and work after the others does not end.
  'Property timeout': after(({ outcome, request }) =>
    outcome.kind === 'rejected' ? never : request.waitUntil?.(never),
  ),
  // The first digits are enough.
  'another outcome than ERR_SIGNATURE_MALFORMED': after(async ({ outcome, request, options }) => {
    const [given, key] = [request.header('x-service-signature'), keyOf(options)];
    if (outcome.error?.code !== 'ERR_SIGNATURE_MALFORMED' || !given || key === undefined) return;
    const whole = await sign(await request.body(32_768), { secret: key });
    return whole.startsWith(given) ? { kind: 'handled', error: undefined } : undefined;
  }),
  // The signature is compared with JSON that was serialized again.
  'another outcome than handled': receiving({
    body: (body) => (judgeEvent(body) === undefined ? body : Buffer.from(textOf(judgeEvent(body)))),
  }),
  // The body is parsed before it is verified.
  'another outcome than ERR_SIGNATURE_MISMATCH': after(({ outcome, body }) =>
    outcome.error?.code === 'ERR_SIGNATURE_MISMATCH' && judgeEvent(body) === undefined
      ? { error: new StablehooksError('ERR_EVENT_MALFORMED', 'The body is not JSON.') }
      : undefined,
  ),
  'another outcome than ERR_BODY_TOO_LARGE': configured(() => ({ maxBodyBytes: 1_000_000 })),
  'another outcome than duplicate': claiming(
    (claim) => (event, options) => claim({ ...event, id: `${event.id} ${claims++}` }, options),
  ),
  'the outcome names another secret': after(() => ({ secretIndex: 0 })),
  'the outcome has another event': after(
    ({ outcome: { event } }) => event && { event: withoutPayload(event) },
  ),
  // It believes a forged delivery, after the answer.
  'a handler got other events': after(({ outcome: { error }, body, options }) => {
    const event = judgeEvent(body);
    if (error?.code !== 'ERR_SIGNATURE_MISMATCH' || event === undefined) return;
    setImmediate(() => run(event, options));
  }),
  'the inbox got other events': claiming(
    (claim) => (event, options) => claim(event, { ...options, json: textOf(withoutPayload(event)) }),
  ),
  'the queue got other events': configured(
    ({ queue }) => queue && { queue: { enqueue: async () => undefined } },
  ),
  'another response': responding((response, { error }) =>
    // It reveals which senders exist.
    error?.code === 'ERR_SECRET_UNKNOWN'
      ? { body: response.body.replace('ERR_SIGNATURE_MISMATCH', error.code) }
      : response,
  ),
  'the response contains something confidential': responding(({ headers }, { event }) => ({
    headers: { ...headers, 'x-event': textOf(event) },
  })),
  'a line of the log contains something confidential': receiving({
    body(body, { logger }) {
      logger?.warn(`got ${Buffer.from(body).toString()}`);
      return body;
    },
  }),
  'an error contains something confidential': after(({ outcome: { error }, options }) => {
    if (error !== undefined) error.cause = new Error('inner', { cause: new Error(keyOf(options)) });
  }),
} satisfies Readonly<Record<string, Parts>>;
