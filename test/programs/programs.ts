/** The whole programs of `examples`: how each is chosen with `init`, started, and asked for its ledger. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import Database from 'libsql';
import pg from 'pg';

/** A program that is being proved. */
export interface Place {
  readonly folder: string;
  /** The variables of its `.env`. */
  readonly env: Readonly<Record<string, string>>;
  readonly origin: string;
}

/** What the handlers have written. */
export interface Ledger {
  read(place: Place): Promise<readonly string[]>;
  /** Makes every handler throw, until `mend`. */
  readonly fault?: { breaks(place: Place): Promise<void>; mend(place: Place): Promise<void> };
}

export interface Program {
  readonly name: string;
  /** The words after `init FOLDER`. */
  readonly init: string;
  readonly needsPostgres?: boolean;
  /** Commands before the start, as the README of the program has them. */
  readonly prepare?: readonly string[];
  /** Statements that only a tool that this machine may lack would run: the migrations of Prisma. */
  readonly sql?: string;
  readonly start: string;
  /** A command that finds and runs what is open; without it, the program does so at its start and every minute. */
  readonly poll?: string;
  readonly ledger: Ledger;
  /** The types whose events are in the ledger. */
  readonly types?: readonly ('accept.confirmed' | 'transfer.settled' | 'redeem.completed')[];
  /** Whether `status` reaches the inbox. @default true */
  readonly status?: boolean;
  /** How `certify` ends and what it prints, for programs that run only once they are built or installed. */
  readonly certify?: { readonly code: number; readonly prints: RegExp };
  /** A second program that must run beside it. */
  readonly beside?: string;
  /** Whether only the nightly workflow runs it. */
  readonly nightly?: boolean;
}

const inPostgres = async (sql: string, { env }: Place): Promise<readonly { event_id: string }[]> => {
  const client = new pg.Client({ connectionString: env['DATABASE_URL'] });
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
};

const POSTGRES: Ledger = {
  read: async (place) =>
    (await inPostgres('SELECT event_id FROM ledger', place)).map(({ event_id }) => event_id),
  fault: {
    breaks: async (place) => void (await inPostgres('ALTER TABLE ledger RENAME TO away', place)),
    mend: async (place) => void (await inPostgres('ALTER TABLE away RENAME TO ledger', place)),
  },
};

function withSqlite<Value>(file: string, work: (db: Database.Database) => Value): Value {
  const db = new Database(file);
  try {
    db.exec('PRAGMA busy_timeout = 5000');
    return work(db);
  } finally {
    db.close();
  }
}

const entriesOf = (file: string) =>
  withSqlite(file, (db) => {
    const rows = db.prepare('SELECT event_id FROM ledger').all() as { readonly event_id: string }[];
    return rows.map(({ event_id }) => event_id);
  });

const rename = ({ folder }: Place, from: string, to: string) =>
  withSqlite(join(folder, 'app.db'), (db) => void db.exec(`ALTER TABLE ${from} RENAME TO ${to}`));

const SQLITE: Ledger = {
  read: async ({ folder }) => entriesOf(join(folder, 'app.db')),
  fault: {
    breaks: async (place) => rename(place, 'ledger', 'away'),
    mend: async (place) => rename(place, 'away', 'ledger'),
  },
};

const SERVER = 'exec npm run dev';

export const PROGRAMS: readonly Program[] = [
  { name: 'express-sqlite', init: '--framework express --database sqlite', start: SERVER, ledger: SQLITE },
  {
    name: 'fastify-postgres',
    init: '--framework fastify',
    needsPostgres: true,
    start: SERVER,
    ledger: POSTGRES,
  },
  {
    name: 'express-postgres',
    init: '--framework express --database postgres',
    needsPostgres: true,
    start: SERVER,
    ledger: POSTGRES,
    nightly: true,
  },
  {
    name: 'next-postgres',
    init: '--framework next',
    needsPostgres: true,
    // Built, because a development server compiles a route at its first request.
    prepare: ['node --env-file=.env --import tsx migrate.ts', 'npm run build'],
    start: 'exec npm start',
    poll: 'npm run cron',
    ledger: POSTGRES,
    // The line in the sources, not in the bundle.
    certify: { code: 0, prints: /once +once +once +INSERT INTO ledger .* lib\/handlers\.ts:10\n/ },
    nightly: true,
  },
  {
    name: 'nest-prisma',
    init: '--framework nest',
    needsPostgres: true,
    prepare: ['npm run build', 'node --env-file=.env --import tsx migrate.ts'],
    sql: 'prisma/migrations/1_ledger/migration.sql',
    start: 'exec node --env-file=.env dist/src/main.js',
    ledger: POSTGRES,
    certify: {
      code: 0,
      prints: /once +once +once +INSERT INTO "public"."ledger" .* dist\/src\/movements\.js:\d+\n/,
    },
    nightly: true,
  },
  {
    name: 'lambda-postgres',
    init: '--framework lambda',
    needsPostgres: true,
    start: SERVER,
    ledger: POSTGRES,
    nightly: true,
  },
  {
    name: 'hono-durable-object',
    init: '--framework hono',
    start: 'exec npx wrangler dev --port $PORT',
    ledger: {
      // Wrangler keeps the object's storage in a file.
      read: async ({ folder }) => {
        const state = join(folder, '.wrangler/state/v3/do');
        const files = await readdir(state, { recursive: true }).catch(() => []);
        const file = files.find((name) => /\/[\da-f]{64}\.sqlite$/.test(name));
        return file === undefined ? [] : entriesOf(join(state, file));
      },
    },
    status: false,
    // workerd runs it, which is not Node.
    certify: { code: 2, prints: /Certify saw no delivery to \/hooks in your app/ },
    nightly: true,
  },
  { name: 'rotation', init: '--example rotation', start: SERVER, ledger: SQLITE, nightly: true },
  ...(['dev', 'dev:orders'] as const).map(
    (script): Program => ({
      name: `payout, ${script}`,
      init: '--example payout',
      start: `exec npm run ${script}`,
      beside: 'exec npm run bank',
      types: ['redeem.completed'],
      ledger: {
        read: async ({ env }) => {
          const paid = (await (await fetch(env['BANK_URL'] ?? '')).json()) as { redeem: string }[];
          return paid.map(({ redeem }) => redeem);
        },
      },
      nightly: true,
    }),
  ),
];

/** The `.env` that `init` wrote, with the ports and databases of the test in place of the usual ones. */
export async function adaptEnv(
  folder: string,
  given: Readonly<Record<string, string>>,
): Promise<Record<string, string>> {
  const written = parseEnv(await readFile(join(folder, '.env'), 'utf8')) as Record<string, string>;
  return { ...written, ...given };
}
