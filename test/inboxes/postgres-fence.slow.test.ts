import { randomUUID } from 'node:crypto';
import { PGlite } from '@electric-sql/pglite';
import pg from 'pg';
import { createReceiver } from 'stablehooks';
import {
  migratePostgres,
  type PgTransactionsLike,
  type PgTx,
  postgresInbox,
} from 'stablehooks/inboxes/postgres';
import { exampleEvent } from 'stablehooks/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { neonPool } from '../services/neon.js';
import { startPostgres } from '../services/postgres.js';
import type { Service } from '../services/service.js';

/** What every way to send a statement in a transaction has in common. */
interface Queries {
  query(text: string, values?: unknown[]): Promise<unknown>;
}

type Handle = (tx: Queries, raw: Queries) => Promise<void>;

/** A data layer, its client without the inbox in between, and the ledger as another connection sees it. */
interface Layer {
  readonly pool: PgTransactionsLike;
  raw(tx: Queries): Queries;
  count(id: string): Promise<number>;
  end(): Promise<unknown>;
}

let server: Service;
beforeAll(async () => {
  server = await startPostgres();
  const admin = new pg.Client(server.url);
  await admin.connect();
  // Otherwise the server refuses PREPARE TRANSACTION anyway.
  await admin.query('ALTER SYSTEM SET max_prepared_transactions = 3');
  await admin.query('CREATE TABLE ledger (id text, entry text)');
  await admin.query('CREATE TABLE accounts (id text PRIMARY KEY)');
  await admin.query('CREATE TABLE entries (account text REFERENCES accounts DEFERRABLE INITIALLY DEFERRED)');
  await migratePostgres(admin);
  await admin.end();
  await server.restart();
});
afterAll(() => server.stop());

function overPool(pool: pg.Pool | ReturnType<typeof neonPool>): Layer {
  let lent: Queries | undefined;
  pool.on('error', () => undefined);
  const admin = new pg.Pool({ connectionString: server.url }).on('error', () => undefined);
  const watched = {
    query: pool.query.bind(pool),
    async connect() {
      const client = await pool.connect();
      lent = client;
      return client;
    },
  };
  return {
    // Typed as the others, so that one handler fits all.
    pool: watched as unknown as PgTransactionsLike,
    raw: () => lent as Queries,
    count: async (id) => (await admin.query('SELECT FROM ledger WHERE id = $1', [id])).rowCount ?? 0,
    end: () => Promise.all([pool.end(), admin.end()]),
  };
}

const layers = {
  // One connection: the next statement fails if it is not returned.
  pg: () => overPool(new pg.Pool({ connectionString: server.url, max: 1 })),
  neon: () => overPool(neonPool(server.url)),
  PGlite: async (): Promise<Layer> => {
    const lite = await PGlite.create();
    await lite.exec('CREATE TABLE ledger (id text, entry text)');
    await migratePostgres(lite);
    let lent: Queries | undefined;
    const pool = {
      query: lite.query.bind(lite),
      transaction: <Value>(work: (tx: never) => Promise<Value>) =>
        lite.transaction((tx) => {
          lent = tx;
          return work(tx as never);
        }),
    };
    return {
      pool: pool as PgTransactionsLike,
      raw: () => lent as Queries,
      count: async (id) => (await lite.query('SELECT FROM ledger WHERE id = $1', [id])).rows.length,
      end: () => lite.close(),
    };
  },
};

const ENDINGS = [
  'COMMIT',
  'END',
  'end transaction',
  '/* x /* y */ -- */ */ COMMIT -- now',
  ' ;\n-- c\nCOMMIT',
  'COMMIT AND CHAIN',
  'SELECT 1; COMMIT',
  "PREPARE TRANSACTION 'prepared'",
  'ROLLBACK',
  'ROLLBACK AND CHAIN',
  'SELECT 1; ROLLBACK',
  'ABORT',
  "DO 'BEGIN COMMIT; END'",
];

/** The drivers below send several statements in one text with other methods; the rest is the same. */
const FEW = ['COMMIT', 'SELECT 1; COMMIT', 'ROLLBACK', 'SELECT 1; ROLLBACK'];

const matrix = [
  { name: 'pg', routes: ['ctx.tx', 'the client under it'], endings: ENDINGS },
  { name: 'neon', routes: ['ctx.tx'], endings: FEW },
  { name: 'PGlite', routes: ['ctx.tx'], endings: FEW },
] as const;

for (const { name, routes, endings } of matrix) {
  describe(`a handler over ${name}`, () => {
    let layer: Layer;
    beforeAll(async () => {
      layer = await layers[name]();
    });
    afterAll(() => layer.end());

    /** Handles one event: `first` at its first attempt, and one entry in the ledger at each later one. */
    async function handle(first: Handle) {
      const inbox = postgresInbox(layer.pool, { transactional: true });
      const event = { ...exampleEvent('transfer.settled'), id: `evt_${randomUUID()}` };
      const write = (tx: Queries, entry: string) =>
        tx.query('INSERT INTO ledger VALUES ($1, $2)', [event.id, entry]);
      const receiver = createReceiver<PgTx>({
        secret: 'x',
        inbox,
        logger: { warn: () => undefined, error: () => undefined },
        handlers: {
          'transfer.settled': async (_, { tx, attempt }) => {
            const queries = tx as unknown as Queries;
            await write(queries, `of attempt ${attempt}`);
            if (attempt === 1) await first(queries, layer.raw(queries));
          },
        },
      });
      const outcome = await receiver.handle(event, 'push');
      const entries = await layer.count(event.id);
      const { state, lastError } = (await inbox.find(event.id)) ?? {};
      let kind = outcome.kind;
      // The attempt that a person or `redrive` makes.
      if (kind === 'failed') {
        const claim = await inbox.claim(event, { leaseMs: 60_000, origin: 'redrive', early: true });
        if (claim.state !== 'claimed') throw new Error(`The claim was answered ${claim.state}.`);
        await inbox.transaction?.(
          claim.lease,
          async (tx) => void (await write(tx as unknown as Queries, 'again')),
        );
        kind = 'handled';
      }
      return {
        first: outcome.kind,
        error: outcome.error,
        state,
        lastError,
        entries,
        last: kind,
        total: await layer.count(event.id),
      };
    }

    describe.each(routes)('through %s', (route) => {
      const select = (tx: Queries, raw: Queries) => (route === 'ctx.tx' ? tx : raw);

      test.each(endings)(
        'that sends %j, writes once more and throws its error does not have that effect twice',
        async (text) => {
          const { total, last } = await handle(async (tx, raw) => {
            const queries = select(tx, raw);
            try {
              await queries.query(text);
            } finally {
              await queries
                .query("INSERT INTO ledger SELECT id, 'after' FROM stablehooks.events WHERE state = 'leased'")
                .catch(() => undefined);
            }
          });
          expect(total).toBeLessThanOrEqual(1);
          if (last === 'handled') expect(total).toBe(1);
        },
      );

      test.each([true, false])(
        'that sends ROLLBACK, writes, sends BEGIN and fails a statement has no effect twice (it throws: %j)',
        async (throws) => {
          const { total } = await handle(async (tx, raw) => {
            const queries = select(tx, raw);
            await queries.query('ROLLBACK').catch(() => undefined);
            await queries
              .query("INSERT INTO ledger SELECT id, 'after' FROM stablehooks.events WHERE state = 'leased'")
              .catch(() => undefined);
            await queries.query('BEGIN').catch(() => undefined);
            const failing = queries.query('SELECT 1 / 0');
            await (throws ? failing : failing.catch(() => undefined));
          });
          expect(total).toBeLessThanOrEqual(1);
        },
      );

      test('that returns before two statements, the second of which fails, is not handled without its effect', async () => {
        const { first, entries, state } = await handle(async (tx, raw) => {
          const queries = select(tx, raw);
          const leave = async () => {
            await queries.query('SELECT 1');
            await queries.query('SELECT 1 / 0');
          };
          void leave().catch(() => undefined);
        });
        expect(entries).toBe(first === 'handled' ? 1 : 0);
        expect(state === 'done').toBe(first === 'handled');
      });

      test.each(endings)(
        'that sends %j and throws has no effect, or one and is not run again',
        async (text) => {
          const { total, last } = await handle(async (tx, raw) => {
            await select(tx, raw).query(text);
            throw new Error('no');
          });
          expect(total).toBe(last === 'handled' ? 1 : 0);
        },
      );

      test.each(endings)('that sends %j, ignores its error and throws has no effect twice', async (text) => {
        const { total, last } = await handle(async (tx, raw) => {
          await select(tx, raw)
            .query(text)
            .catch(() => undefined);
          throw new Error('no');
        });
        expect(total).toBe(last === 'handled' ? 1 : 0);
      });

      test.each(endings)(
        'that sends %j, ignores its error and returns is handled with its effect, or not handled',
        async (text) => {
          const { first, state, entries, total, last } = await handle(async (tx, raw) => {
            await select(tx, raw)
              .query(text)
              .catch(() => undefined);
          });
          expect(state === 'done').toBe(first === 'handled');
          expect(entries).toBe(first === 'handled' ? 1 : 0);
          expect(total).toBe(last === 'handled' ? 1 : 0);
        },
      );

      test.each(endings)(
        'that sends %j and writes once more does not have that effect twice',
        async (text) => {
          const { total, last } = await handle(async (tx, raw) => {
            const queries = select(tx, raw);
            await queries.query(text).catch(() => undefined);
            await queries
              .query("INSERT INTO ledger SELECT id, 'after' FROM stablehooks.events WHERE state = 'leased'")
              .catch(() => undefined);
            throw new Error('no');
          });
          expect(total).toBeLessThanOrEqual(1);
          if (last === 'handled') expect(total).toBe(1);
        },
      );
    });
  });
}
