/** The effect of every event in `exactly-once.ts`: one row in Postgres, written in a transaction. */
import type pg from 'pg';

export const LEDGER = 'CREATE TABLE ledger (id text NOT NULL)';

export const enter = (id: string) => ({
  name: 'enter',
  text: 'INSERT INTO ledger VALUES ($1)',
  values: [id],
});

type Client = Pick<pg.ClientBase, 'query'>;

export async function inTransaction(client: Client, work: () => Promise<void>): Promise<void> {
  await client.query('BEGIN');
  try {
    await work();
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK');
    throw error;
  }
}

/** The same with a connection of the pool. */
export async function transact(pool: pg.Pool, work: (client: Client) => Promise<void>): Promise<void> {
  const client = await pool.connect();
  try {
    await inTransaction(client, () => work(client));
  } finally {
    client.release();
  }
}
