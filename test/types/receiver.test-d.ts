/** Types of the receiver: narrowing, typos, schemas, results. Compiled by `npm run check`, never run. */

import type { IncomingMessage, ServerResponse } from 'node:http';
import type pg from 'pg';
import {
  createReceiver,
  type EventType,
  type Handlers,
  type Inbox,
  type Layer,
  memoryInbox,
  parseEvent,
  type Receiver,
  type StandardSchema,
  type Synchronous,
  verifySignature,
  type WebhookEvent,
  withPayload,
} from 'stablehooks';
import { postgresInbox } from 'stablehooks/inboxes/postgres';
import { toNodeHandler } from 'stablehooks/node';
import * as z from 'zod/mini';

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
function expectType<Wanted>() {
  return <Got>(_got: Got, ..._same: Equal<Got, Wanted> extends true ? [] : [never]): void => undefined;
}

interface Client {
  query(sql: string): Promise<{ rows: unknown[] }>;
}

declare const pool: pg.Pool;
declare const inPg: Handlers<pg.PoolClient>;
declare const inOther: Handlers<{ unsafe(text: string): void }>;
declare const body: Uint8Array;
declare const incoming: IncomingMessage;
declare const response: ServerResponse;
declare const inboxWithTx: Inbox<Client>;
declare const insert: (id: string) => PromiseLike<number[]>;

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
      expectType<string>()(context.json);
    },
  },
});

// A handler can return anything.
createReceiver({
  secret: 's',
  handlers: {
    'accept.confirmed': ({ id }) => insert(id),
    'transfer.settled': async ({ id }) => await insert(id),
    'transfer.failed': ({ id }) => [id].push(id),
    'redeem.completed': () => undefined,
    'redeem.failed': () => {},
  },
});

// withPayload gives the output of any schema as the payload of its own type, and the transaction of the inbox.
const Settled = z.object({ amount: z.string(), at: z.pipe(z.string(), z.transform(Number)) });
declare const standard: StandardSchema<{ readonly iban: string }>;
createReceiver({
  secret: ['new', 'old'],
  inbox: inboxWithTx,
  handlers: {
    'transfer.settled': withPayload(Settled, (event, { tx, json }) => {
      expectType<'transfer.settled'>()(event.type);
      expectType<string>()(event.payload.amount);
      expectType<number>()(event.payload.at);
      expectType<Client>()(tx);
      expectType<string>()(json);
      // @ts-expect-error a field that the schema does not have
      event.payload.amont;
      return tx.query('insert');
    }),
    'transfer.failed': withPayload(standard, async ({ payload }) => expectType<string>()(payload.iban)),
    'redeem.completed': async (_event, { tx }) => tx.query('insert'),
  },
});
withPayload(Settled, ({ payload }) => payload.amount) satisfies Handlers['transfer.settled'];
// @ts-expect-error an object that is not a schema
withPayload({ amount: 'string' }, () => undefined);

// Typos do not compile.
createReceiver({
  secret: 's',
  // @ts-expect-error misspelt type
  handlers: { 'transfer.setled': () => undefined },
});
createReceiver({
  secret: 's',
  handlers: {},
  // @ts-expect-error misspelt option
  handlerTimeout: 5,
});
// @ts-expect-error a receiver needs a secret
createReceiver({ handlers: {} });

// A receiver is passed to an adapter: `receive` does not take a framework's request.
declare const receiver: Receiver;
// @ts-expect-error the request of fetch
receiver.receive(new Request('http://localhost'));
// @ts-expect-error parts of the package
receiver.record;
expectType<void>()(receiver.start({ intervalMs: 1_000 }));

// Linters refuse a promise where a server ignores it (no-misused-promises).
expectType<void>()(toNodeHandler(receiver)(incoming, response));

// A layer has some of the seams.
createReceiver({ secret: 's', handlers: {}, use: [{ handler: (next) => next }, {}] satisfies Layer[] });

// Bytes only.
// @ts-expect-error text in place of bytes
verifySignature('{}', 'sig', { secret: 's' });
// @ts-expect-error a parsed body in place of bytes
verifySignature({}, 'sig', { secret: 's' });

// Handlers of a transaction need an inbox that has it.
declare const inTransaction: Handlers<Client>;
createReceiver({ secret: 's', inbox: inboxWithTx, handlers: inTransaction });
// @ts-expect-error no inbox
createReceiver({ secret: 's', handlers: inTransaction });
// @ts-expect-error an inbox without transactions
createReceiver({ secret: 's', inbox: memoryInbox(), handlers: inTransaction });
// @ts-expect-error `transactional: true` is missing
createReceiver({ secret: 's', inbox: postgresInbox(pool), handlers: inTransaction });
createReceiver({ secret: 's', inbox: postgresInbox(pool), handlers: {} });
// @ts-expect-error the transaction of another driver
createReceiver({ secret: 's', inbox: postgresInbox(pool, { transactional: true }), handlers: inOther });
createReceiver({ secret: 's', inbox: postgresInbox(pool, { transactional: true }), handlers: inPg });

// Steps are asynchronous: a handler in a synchronous transaction has none, and every other handler has them.
declare const synchronous: Inbox<Synchronous<Client>>;
createReceiver({
  secret: '',
  inbox: synchronous,
  handlers: {
    // @ts-expect-error there are no steps in it
    'transfer.settled': (_, { step }) => step,
    'transfer.failed': (_, { tx, idempotencyKey }) => void tx.query(idempotencyKey('payout')),
  },
});
createReceiver({
  secret: '',
  inbox: inboxWithTx,
  handlers: {
    'transfer.settled': async (_, { step }) => {
      expectType<{ id: string }>()(await step('payout', async () => ({ id: 'pay_1' })));
      expectType<number>()(await step('mail', () => 1, { onInterrupted: 'fail' }));
    },
  },
});
createReceiver({ secret: '', handlers: { 'transfer.settled': (_, { step }) => step('mail', () => 1) } });

// A handler in a synchronous transaction returns no promise; every other value is fine.
declare const statement: { run(): { readonly changes: number }; all(): unknown[] };
// biome-ignore lint/suspicious/noExplicitAny: what drivers without types return.
declare const untyped: any;
createReceiver({
  secret: '',
  inbox: synchronous,
  handlers: {
    // @ts-expect-error its transaction would end before it
    'transfer.settled': async () => {},
    // @ts-expect-error a promise
    'transfer.failed': () => Promise.resolve({ id: 'pay_1' }),
    'accept.confirmed': () => statement.run(),
    'redeem.completed': (event) => (event.id === '' ? undefined : statement.all()),
    'redeem.failed': () => untyped,
  },
});
createReceiver({
  secret: '',
  inbox: synchronous,
  handlers: {
    // @ts-expect-error its transaction would end before it
    'transfer.settled': withPayload(standard, async () => {}),
    'transfer.failed': withPayload(standard, ({ payload }, { tx }) => void tx.query(payload.iban)),
  },
});
