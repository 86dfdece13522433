/** What the compiler promises users: narrowing, typos, schemas. Compiled by `npm run check`, never run. */
import {
  createReceiver,
  type EventType,
  type Inbox,
  parseEvent,
  verifySignature,
  type WebhookEvent,
} from 'stablehooks';
import * as z from 'zod/mini';

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
function expectType<Wanted>() {
  return <Got>(_got: Got, ..._same: Equal<Got, Wanted> extends true ? [] : [never]): void => undefined;
}

declare const body: Uint8Array;
declare const inboxWithTx: Inbox<{ query(sql: string): Promise<void> }>;

// The union narrows by type, and holds the five types alone.
declare const event: WebhookEvent;
expectType<EventType>()(event.type);
if (event.type === 'transfer.settled') expectType<WebhookEvent<'transfer.settled'>>()(event);
// @ts-expect-error a type that the union does not hold
if (event.type === 'mint.completed') event.id;

// An unknown event is never part of it.
const parsed = parseEvent(body);
// @ts-expect-error not known to be one of the five before it was asked
parsed.event satisfies WebhookEvent;
if (parsed.known) parsed.event satisfies WebhookEvent;
else expectType<string>()(parsed.event.type);

// Each handler gets its own event; without a schema the payload is unknown.
createReceiver({
  secret: 's',
  handlers: {
    'accept.confirmed': (event, context) => {
      expectType<'accept.confirmed'>()(event.type);
      expectType<Readonly<Record<string, unknown>>>()(event.payload);
      expectType<undefined>()(context.tx);
      expectType<AbortSignal>()(context.signal);
      expectType<number>()(context.attempt);
    },
  },
});

// A schema's output is the payload of its own type, and of no other.
createReceiver({
  secret: ['new', 'old'],
  payloads: {
    'transfer.settled': z.object({ amount: z.string(), at: z.pipe(z.string(), z.transform(Number)) }),
  },
  handlers: {
    'transfer.settled': ({ payload }) => {
      expectType<string>()(payload.amount);
      expectType<number>()(payload.at);
      // @ts-expect-error no such field
      payload.amont;
    },
    'transfer.failed': ({ payload }) => expectType<Readonly<Record<string, unknown>>>()(payload),
  },
});

// The transaction of the inbox reaches the handler.
createReceiver({
  secret: 's',
  inbox: inboxWithTx,
  handlers: { 'redeem.completed': async (_event, { tx }) => tx.query('insert') },
});

// Typos do not compile.
createReceiver({
  secret: 's',
  // @ts-expect-error misspelt type
  handlers: { 'transfer.setled': () => undefined },
});
createReceiver({
  secret: 's',
  // @ts-expect-error misspelt type
  payloads: { 'transfer.setled': z.object({}) },
  handlers: {},
});
createReceiver({
  secret: 's',
  handlers: {},
  // @ts-expect-error misspelt option
  handlerTimeout: 5,
});
// @ts-expect-error there is no receiver without a secret
createReceiver({ handlers: {} });

// Bytes only.
// @ts-expect-error text in place of bytes
verifySignature('{}', 'sig', { secret: 's' });
// @ts-expect-error a parsed body in place of bytes
verifySignature({}, 'sig', { secret: 's' });
