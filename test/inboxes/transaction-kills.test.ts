/**
 * Kills processes at random moments while they handle events in transactions, over each data layer: afterwards the
 * ledger has each event exactly once.
 *
 * `npm run test:kills` kills 200 processes per data layer, which takes about a minute for each.
 */
import type { Inbox, InboxOperations } from 'stablehooks';
import { mysqlInbox } from 'stablehooks/inboxes/mysql';
import { postgresInbox } from 'stablehooks/inboxes/postgres';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Bundle, bundle } from '../bundle.js';
import { KILLS, killWorkers, TIMEOUT_MS, WAYS } from './kill-workers.js';
import { WHOLE_LAYERS } from './orm/data-layers.js';
import { WHOLE_MYSQL_LAYERS } from './orm/mysql-layers.js';
import { startDatabase } from './orm/with-data-layers.js';
import { startMysqlDatabase } from './orm/with-mysql-layers.js';

/** A server with an inbox and a ledger. */
interface Server {
  readonly url: string;
  readonly inbox: Inbox & InboxOperations;
  /** The first column of the rows. */
  select(text: string): Promise<readonly unknown[]>;
  readonly tables: { readonly events: string; readonly ledger: string };
  stop(): Promise<void>;
}

async function startPostgres(): Promise<Server> {
  const { server, admin, stop } = await startDatabase();
  return {
    url: server.url,
    inbox: postgresInbox(admin),
    select: async (text) => (await admin.query({ text, rowMode: 'array' })).rows.map(([first]) => first),
    tables: { events: 'stablehooks.events', ledger: 'ledger' },
    stop,
  };
}

async function startMariadb(): Promise<Server> {
  const { server, admin, select, stop } = await startMysqlDatabase();
  const tables = { events: 'stablehooks_events', ledger: 'ledger' };
  return { url: server.url, inbox: mysqlInbox(admin), select, tables, stop };
}

let program: Bundle;
beforeAll(async () => {
  program = await bundle(new URL('./orm/kill-worker.ts', import.meta.url));
});
afterAll(() => program.remove());

describe.each([
  { name: 'Postgres', start: startPostgres, layers: WHOLE_LAYERS },
  { name: 'MariaDB', start: startMariadb, layers: WHOLE_MYSQL_LAYERS },
])('$name', ({ start, layers }) => {
  let server: Server;
  beforeAll(async () => {
    server = await start();
  });
  afterAll(() => server.stop());

  test.each(layers.flatMap((layer) => WAYS.map((way) => ({ layer, way }))))(
    `SIGKILL of ${KILLS} processes over $layer leaves each $way event in the ledger exactly once`,
    async ({ layer, way }) => {
      const { url, inbox, select, tables } = server;
      let ranAgain = 0;
      // Kills that hit no transaction show nothing, so others follow.
      while (ranAgain === 0) {
        const before = await select(`SELECT id FROM ${tables.ledger}`);
        const ids = await killWorkers({ way, file: program.file, env: { LAYER: layer, URL: url }, inbox });

        const after = await select(`SELECT id FROM ${tables.ledger}`);
        expect(after.toSorted()).toEqual([...before, ...ids].toSorted());
        const again = await select(`SELECT id FROM ${tables.events} WHERE attempts > 1`);
        // The first attempts that a kill ended are not counted anywhere.
        ranAgain = way === 'delivered' ? 1 : again.filter((id) => ids.includes(String(id))).length;
        console.log(`${layer}: ${KILLS} kills, ${ids.length} ${way} events, ${ranAgain} ran again`);
      }
    },
    TIMEOUT_MS,
  );
});
