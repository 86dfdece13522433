/** What the Postgres inbox needs of a driver: the least that pg, Neon, PGlite and postgres.js can give. */

/** Sends one statement. `pg` and `@neondatabase/serverless` pools and a PGlite fit as they are. */
export interface PgLike {
  query(text: string, values?: unknown[]): Promise<{ readonly rows: readonly unknown[] }>;
}

/** A pool whose clients can be checked out: `Pool` of `pg` or `@neondatabase/serverless`. */
export interface PgPoolLike extends PgLike {
  connect(): Promise<PgClientLike>;
}

/** One connection of a pool. */
export interface PgClientLike extends PgLike {
  on(event: 'error', listener: (error: Error) => void): unknown;
  removeListener(event: 'error', listener: (error: Error) => void): unknown;
  /** Gives it back; with an error it is closed instead. */
  release(error?: Error): void;
}

/** A driver that runs transactions itself: PGlite as it is, postgres.js by {@link fromPostgresJs}. */
export interface PgTransactionsLike extends PgLike {
  /** Commits when `work` resolves, rolls back and rejects with the same error when it rejects. */
  transaction<Value>(work: (client: PgLike) => Promise<Value>): Promise<Value>;
}

/** The open transaction that a handler gets as `ctx.tx`. */
export interface PgTx {
  /** Sends one statement in the transaction; rejects once the transaction has ended. */
  query<Row = Readonly<Record<string, unknown>>>(
    text: string,
    values?: readonly unknown[],
  ): Promise<{ readonly rows: readonly Row[] }>;
}

/** The least of a postgres.js `sql`; its results are arrays, its transactions functions. */
export interface PostgresJsLike extends PostgresJsQueries {
  begin(work: (sql: PostgresJsQueries) => Promise<unknown>): Promise<unknown>;
}

/** What a postgres.js `sql` can do inside of a transaction, too. */
export interface PostgresJsQueries {
  unsafe(text: string, values?: never[], options?: { readonly prepare: boolean }): PromiseLike<unknown>;
}

/**
 * Fits a postgres.js `sql` to the Postgres inbox.
 *
 * Statements are prepared, as without it postgres.js takes two round trips for each; `prepare: false` among
 * its own options (for a pooler in front) goes before.
 *
 * @example
 * ```ts
 * const inbox = postgresInbox(fromPostgresJs(postgres(url)), { transactional: true });
 * ```
 */
export function fromPostgresJs(sql: PostgresJsLike): PgTransactionsLike {
  const toClient = (queries: PostgresJsQueries): PgLike => ({
    async query(text, values = []) {
      // `never[]`, so that every version's own type of parameters is accepted; it takes what pg takes.
      const rows = await queries.unsafe(text, values as never[], { prepare: values.length > 0 });
      return { rows: rows as readonly unknown[] };
    },
  });
  return {
    ...toClient(sql),
    async transaction<Value>(work: (client: PgLike) => Promise<Value>) {
      return (await sql.begin((queries) => work(toClient(queries)))) as Value;
    },
  };
}

/** Sends one statement and answers its rows, whose shape the statement's own text fixes. */
export async function ask<Row>(
  client: PgLike,
  { text, values = [] }: { readonly text: string; readonly values?: readonly unknown[] },
): Promise<readonly Row[]> {
  const { rows } = await client.query(text, [...values]);
  return rows as readonly Row[];
}
