import { PGlite, type Transaction } from '@electric-sql/pglite';
import {
  Client as NeonClient,
  Pool as NeonPool,
  type PoolClient as NeonPoolClient,
} from '@neondatabase/serverless';
import pg from 'pg';
import type { Inbox } from 'stablehooks';
import {
  type PgClientLike,
  type PgLike,
  type PgTransactionsLike,
  type PgTx,
  postgresInbox,
} from 'stablehooks/inboxes/postgres';
import { expectTypeOf, test } from 'vitest';

type TxOf<Value> = Value extends Inbox<infer Tx> ? Tx : never;

test('ctx.tx has the type of the own client of each driver', () => {
  const usual = () => postgresInbox(new pg.Pool(), { transactional: true });
  expectTypeOf<TxOf<ReturnType<typeof usual>>>().toEqualTypeOf<pg.PoolClient>();
  const neon = () => postgresInbox(new NeonPool(), { transactional: true });
  expectTypeOf<TxOf<ReturnType<typeof neon>>>().toEqualTypeOf<NeonPoolClient>();
  const lite = () => postgresInbox(new PGlite(), { transactional: true });
  expectTypeOf<TxOf<ReturnType<typeof lite>>>().toEqualTypeOf<Transaction>();
  const own = (pool: PgTransactionsLike) => postgresInbox(pool, { transactional: true });
  expectTypeOf<TxOf<ReturnType<typeof own>>>().toEqualTypeOf<PgTx>();
  const custom = (pool: PgLike & { connect(): Promise<PgClientLike> }) =>
    postgresInbox(pool, { transactional: true });
  expectTypeOf<TxOf<ReturnType<typeof custom>>>().toEqualTypeOf<PgClientLike>();
});

test('a single Client does not compile, and whatever sends each statement by itself does', () => {
  // @ts-expect-error one connection
  expectTypeOf(() => postgresInbox(new pg.Client())).toBeFunction();
  // @ts-expect-error one connection
  expectTypeOf((client: pg.PoolClient) => postgresInbox(client)).toBeFunction();
  // @ts-expect-error one connection
  expectTypeOf(() => postgresInbox(new NeonClient(''))).toBeFunction();
  // @ts-expect-error one connection
  expectTypeOf(() => postgresInbox(new pg.Client(), { transactional: true })).toBeFunction();
  for (const pool of [new pg.Pool(), new NeonPool()]) {
    expectTypeOf(() => postgresInbox(pool, { transactional: false })).toBeFunction();
  }
  expectTypeOf((pool: PgLike | PGlite) => postgresInbox(pool)).toBeFunction();
});
