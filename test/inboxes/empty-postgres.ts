import type { PgLike } from 'stablehooks/inboxes/postgres';

/** Removes all that an inbox has stored, in a hundredth of the time that a new schema takes. */
export async function emptyPostgres(pool: Pick<PgLike, 'query'>, schema: string): Promise<void> {
  await pool.query(`WITH notes AS (DELETE FROM "${schema}".notes) DELETE FROM "${schema}".events`);
}
