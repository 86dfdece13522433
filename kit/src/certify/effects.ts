/** The effects of an event: the rows of `--effects` that name it, and the requests that the app sent to other servers. */
import { CommandError, usageError } from '../io/errors.js';
import { importFromProject } from '../io/inbox/opening.js';
import { findSqlite } from '../io/inbox/sqlite.js';
import { redact, toPlain } from '../io/output.js';

export type Row = readonly string[];

export interface Identity {
  readonly id: string;
  readonly token: string;
}

interface Pg {
  readonly Client: new (options: {
    readonly connectionString: string;
    readonly connectionTimeoutMillis: number;
  }) => {
    connect(): Promise<unknown>;
    query(query: {
      readonly text: string;
      readonly rowMode: 'array';
    }): Promise<{ readonly rows: readonly (readonly unknown[])[] }>;
    end(): Promise<void>;
  };
}

/** Reads the rows over a new connection, because an app can replace its SQLite file when it starts. */
export async function readEffects(database: string, sql: string): Promise<readonly Row[]> {
  try {
    const rows = /^postgres(ql)?:/.test(database)
      ? await readPostgres(database, sql)
      : await readSqlite(database, sql);
    return rows.map((row) => row.map(toCell));
  } catch (error) {
    if (error instanceof CommandError) throw error;
    const message = redact(toPlain(error instanceof Error ? error.message : String(error)));
    throw usageError(`The --effects query failed: ${message}. Check the query and --database.`, {
      cause: error,
    });
  }
}

async function readPostgres(connectionString: string, text: string) {
  const { driver } = await importFromProject<Pg>(
    ['pg'],
    'To read effects from Postgres, certify needs a driver.',
  );
  const client = new driver.Client({ connectionString, connectionTimeoutMillis: 5_000 });
  await client.connect();
  try {
    return (await client.query({ text, rowMode: 'array' })).rows;
  } finally {
    await client.end();
  }
}

async function readSqlite(path: string, sql: string): Promise<readonly (readonly unknown[])[]> {
  const Sqlite = await findSqlite();
  const db = new Sqlite(path);
  try {
    db.exec('PRAGMA busy_timeout = 5000');
    return db
      .prepare(sql)
      .all()
      .map((row) => Object.values(Object(row)));
  } finally {
    db.close();
  }
}

function toCell(value: unknown): string {
  return value instanceof Date ? value.toISOString() : String(value);
}

/** Replaces the names of the event, so that the rows of two events can be compared. */
export function rowsOf(rows: readonly Row[], { id, token }: Identity): readonly Row[] {
  const names = new RegExp(`${id}|${token}`, 'gi');
  return rows
    .filter((row) => row.some((cell) => cell.search(names) >= 0))
    .map((row) => row.map((cell) => cell.replaceAll(names, '<event>')));
}

/** Columns that differ between two undisturbed runs, such as times, are not compared. */
export interface Reference {
  readonly effects: readonly string[];
  readonly compare: (row: Row) => string;
}

export function toReference(one: readonly Row[], other: readonly Row[]): Reference | undefined {
  if (one.length !== other.length) return undefined;
  const columnOf = (rows: readonly Row[], column: number) =>
    JSON.stringify(rows.map((row) => row[column]).sort());
  const compare = (row: Row) =>
    JSON.stringify(
      row.map((cell, column) => (columnOf(one, column) === columnOf(other, column) ? cell : '*')),
    );
  return { effects: one.map(compare).sort(), compare };
}

export type Difference = 'same' | 'more' | 'fewer' | 'other';

export function differenceOf(reference: Reference, rows: readonly Row[]): Difference {
  const effects = rows.map(reference.compare).sort();
  if (JSON.stringify(effects) === JSON.stringify(reference.effects)) return 'same';
  if (effects.length === reference.effects.length) return 'other';
  return effects.length > reference.effects.length ? 'more' : 'fewer';
}
