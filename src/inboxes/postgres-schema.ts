/** The tables of the Postgres inbox, and how they come to be. */
import { ConfigError } from '../core/errors.js';
import type { PgLike } from './postgres-client.js';

/** Where the tables are. */
export interface PostgresSchemaOptions {
  /** The schema that holds the inbox's own two tables, and nothing else. @default 'stablehooks' */
  readonly schema?: string | undefined;
}

/** The tables' quoted names. */
export interface PostgresTables {
  readonly schema: string;
  readonly events: string;
  readonly poll: string;
}

/**
 * Names the tables.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when the schema's name is not plain.
 */
export function namePostgresTables({ schema = 'stablehooks' }: PostgresSchemaOptions): PostgresTables {
  if (!/^[A-Za-z_][A-Za-z0-9_]{0,62}$/.test(schema)) {
    throw new ConfigError('`schema` must be letters, digits and underscores, at most 63, no digit first.');
  }
  return { schema: `"${schema}"`, events: `"${schema}"."events"`, poll: `"${schema}"."poll"` };
}

/**
 * The SQL that makes the tables, statement by statement, for those who run their migrations themselves.
 *
 * Every statement may be run again, and later releases only append to the list: run all of them at each
 * deployment, or those that are new.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when the schema's name is not plain.
 */
export function postgresMigrations(options: PostgresSchemaOptions = {}): readonly string[] {
  const { schema, events, poll } = namePostgresTables(options);
  return [
    `CREATE SCHEMA IF NOT EXISTS ${schema}`,
    // The event is text: jsonb refuses \u0000, and json checks again what was parsed already.
    `CREATE TABLE IF NOT EXISTS ${events} (
  id text COLLATE "C" PRIMARY KEY,
  received_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  due_at timestamptz,
  attempts integer NOT NULL DEFAULT 0,
  state text COLLATE "C" NOT NULL
    CHECK (state IN ('received', 'leased', 'failed', 'done', 'dead', 'parked')),
  source text COLLATE "C" NOT NULL,
  type text COLLATE "C" NOT NULL,
  token uuid,
  last_error text,
  event text
)`,
    // The first grows with the table; the others hold only what is due, or not pruned yet.
    `CREATE INDEX IF NOT EXISTS events_state ON ${events} (state, received_at) INCLUDE (updated_at)`,
    `CREATE INDEX IF NOT EXISTS events_due ON ${events} (due_at) WHERE due_at IS NOT NULL`,
    `CREATE INDEX IF NOT EXISTS events_whole ON ${events} (updated_at) WHERE state = 'done' AND event IS NOT NULL`,
    // Parked types stay so until a release knows them, and each look for what is due asks for some.
    `CREATE INDEX IF NOT EXISTS events_parked ON ${events} (type, received_at) INCLUDE (id) WHERE state = 'parked'`,
    `CREATE TABLE IF NOT EXISTS ${poll} (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  holder text NOT NULL,
  lease_until timestamptz NOT NULL,
  horizon bigint,
  largest integer NOT NULL
)`,
  ];
}

/**
 * Makes the tables, or brings them up to this release. Safe to call at every start of every process: an
 * advisory lock lets one do it at a time, in one transaction and one round trip.
 *
 * @throws whatever the driver throws, as when the role may not create a schema.
 *
 * @example
 * ```ts
 * await migratePostgres(pool);
 * const inbox = postgresInbox(pool);
 * ```
 */
export async function migratePostgres(pool: PgLike, options: PostgresSchemaOptions = {}): Promise<void> {
  const { schema } = namePostgresTables(options);
  // One DO block, because not every driver sends several statements at once, nor on one connection.
  await pool.query(`DO $migration$ BEGIN
PERFORM pg_advisory_xact_lock(hashtextextended('stablehooks ${schema}', 0));
${postgresMigrations(options).join(';\n')};
END $migration$`);
}
