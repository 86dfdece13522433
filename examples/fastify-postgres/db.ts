import pg from 'pg';

const { DATABASE_URL } = process.env;
export const pool = new pg.Pool({
  connectionString: DATABASE_URL,
  connectionTimeoutMillis: 5_000,
  query_timeout: 15_000,
});
// Without a listener, a broken connection crashes the process.
pool.on('error', console.error);
