/** Ordering keys in Postgres: the migration, many events of one key, plans, and deadlocks. */
import { createHash, randomUUID } from 'node:crypto';
import pg from 'pg';
import { createReceiver } from 'stablehooks';
import { type Lease, migratePostgres, postgresInbox, postgresMigrations } from 'stablehooks/inboxes/postgres';
