/** One process of an app in its old or its new release, over an inbox that both share. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import { createReceiver, type EventType, type Inbox, memoryInbox, type ReceiverOptions } from 'stablehooks';
import { type PgTx, postgresInbox } from 'stablehooks/inboxes/postgres';
import { toNodeHandler } from 'stablehooks/node';

/** `forgetful` is a new release that claims to be durable and is not: the test must find that. */
export type Release = 'old' | 'new' | 'forgetful';

export interface ReleaseSettings {
  readonly release: Release;
  readonly databaseUrl: string;
  readonly secret: string;
}

/** The new release adds a handler, removes another, and changes options. */
const OLD = {
  types: ['transfer.settled', 'redeem.completed', 'transfer.failed'],
  options: { maxAttempts: 1_000 },
} satisfies ReleaseParts;
const NEW = {
  types: ['transfer.settled', 'redeem.completed', 'accept.confirmed'],
  options: {
    maxAttempts: 20,
    answer: 'recorded',
    orderingKey: ({ id }) => id.slice(-1),
  },
} satisfies ReleaseParts;

interface ReleaseParts {
  readonly types: readonly EventType[];
  readonly options: Pick<ReceiverOptions, 'maxAttempts' | 'answer' | 'orderingKey'>;
}

const { release, databaseUrl, secret } = JSON.parse(process.argv[2] ?? '') as ReleaseSettings;
const ignore = () => undefined;
const pool = new pg.Pool({ connectionString: databaseUrl, max: 8 }).on('error', ignore);

function receiverWith<Tx>(inbox: Inbox<Tx>, toClient: (tx: Tx) => Pick<PgTx, 'query'>) {
  const { types, options }: ReleaseParts = release === 'old' ? OLD : NEW;
  const book = async ({ id }: { readonly id: string }, { tx, attempt }: { tx: Tx; attempt: number }) => {
    await pause(Math.random() * 20);
    // One in four fails at first, so another process, of either release, can run it again.
    if (attempt === 1 && Number.parseInt(id.slice(-4), 16) % 4 === 0) throw new Error('planted');
    await toClient(tx).query('INSERT INTO ledger (event_id) VALUES ($1)', [id]);
  };
  return createReceiver<Tx>({
    ...{ secret, inbox, leaseMs: 2_000, handlerTimeoutMs: 1_900, logger: { warn: ignore, error: ignore } },
    ...options,
    handlers: Object.fromEntries(types.map((type) => [type, book])),
  });
}

const receiver =
  release === 'forgetful'
    ? receiverWith({ ...memoryInbox(), durable: true }, () => pool)
    : receiverWith(postgresInbox(pool, { transactional: true }), (tx) => tx);
receiver.start({ intervalMs: 100 });
const server = createServer(toNodeHandler(receiver)).listen(0, '127.0.0.1', () => {
  process.send?.(server.address() as AddressInfo);
});
process.once('SIGTERM', async () => {
  await receiver.close();
  process.exit();
});
process.on('disconnect', () => process.exit());
