/** What a handler sets for its transaction: another role, another search_path, row security. */
import type pg from 'pg';
import { createReceiver, type Handler } from 'stablehooks';
import { postgresInbox } from 'stablehooks/inboxes/postgres';
import { expect, test } from 'vitest';
import { ownPostgres } from '../services/own-postgres.js';
import { silent, someEvent } from './claimed.js';

const own = ownPostgres(
  'CREATE ROLE tenant',
  'CREATE SCHEMA tenant_1',
  'CREATE TABLE tenant_1.ledger (id text PRIMARY KEY, tenant text NOT NULL)',
  'ALTER TABLE tenant_1.ledger ENABLE ROW LEVEL SECURITY',
  "CREATE POLICY own_rows ON tenant_1.ledger TO tenant USING (tenant = current_setting('app.tenant', true))",
  'GRANT USAGE ON SCHEMA tenant_1 TO tenant',
  'GRANT SELECT, INSERT ON tenant_1.ledger TO tenant',
);

const SETTINGS: readonly (readonly [what: string, statements: string])[] = [
  ['SET LOCAL ROLE', 'SET LOCAL ROLE tenant'],
  ['search_path', 'SET LOCAL search_path TO tenant_1'],
  ['row_security', 'SET LOCAL ROLE tenant; SET LOCAL row_security TO off; SET LOCAL row_security TO on'],
  ['all of them', "SET LOCAL ROLE tenant; SET LOCAL search_path TO ''"],
];

function open(
  handler: Handler<'transfer.settled', pg.PoolClient>,
  options: { readonly orderingKey?: () => string } = {},
) {
  const inbox = postgresInbox(own.pool, { transactional: true });
  const handlers = { 'transfer.settled': handler };
  return { inbox, receiver: createReceiver({ secret: 'x', inbox, logger: silent, handlers, ...options }) };
}

/** How an event reaches its handler. */
const PATHS = ['delivered', 'redriven', 'failed before'] as const;

test.each(SETTINGS.flatMap(([what, statements]) => PATHS.map((path) => [what, path, statements] as const)))(
  'a handler that sets %s in its transaction is committed with its event (%s)',
  async (_what, path, statements) => {
    const event = someEvent();
    let fails = path === 'failed before';
    const { inbox, receiver } = open(async ({ id }, { tx }) => {
      await tx.query(`${statements}; SELECT set_config('app.tenant', 'one', true)`);
      if (fails) throw new Error('the bank is closed');
      await tx.query("INSERT INTO tenant_1.ledger VALUES ($1, 'one')", [id]);
    });
    if (path === 'redriven') {
      await inbox.record([event], { dueInMs: 0, origin: 'pull' });
      expect(await receiver.redrive()).toMatchObject({ handled: 1 });
    } else if (path === 'failed before') {
      expect(await receiver.handle(event, 'push')).toMatchObject({ kind: 'failed' });
      expect(await inbox.find(event.id)).toMatchObject({ state: 'failed', attempts: 1 });
      fails = false;
      await inbox.requeue(event.id);
      expect(await receiver.handle(event, 'push')).toMatchObject({ kind: 'handled' });
    } else {
      const { kind, error } = await receiver.handle(event, 'push');
      expect([kind, error?.message]).toEqual(['handled', undefined]);
    }
    expect(await inbox.find(event.id)).toMatchObject({ state: 'done' });
    const { rows } = await own.pool.query('SELECT tenant FROM tenant_1.ledger WHERE id = $1', [event.id]);
    expect(rows).toEqual([{ tenant: 'one' }]);
    // The next user of the connection has its own role.
    const { rows: roles } = await own.pool.query("SELECT current_user <> 'tenant' AS own");
    expect(roles).toEqual([{ own: true }]);
  },
);

const orderingKey = () => 'one account';

test('the outcome of an event with an ordering key names the role that its handler left set, and how to set it back', async () => {
  const { receiver } = open(({ id }, { tx }) => insertAsTenant(tx, id), { orderingKey });
  const { kind, error } = await receiver.handle(someEvent(), 'push');
  expect([kind, error?.code]).toEqual(['failed', 'ERR_HANDLER_FAILED']);
  expect(error?.message).toMatch(
    /set another role, end the handler with `SET LOCAL ROLE NONE`.* will run again\.$/,
  );
});

test('a handler of an event with an ordering key that sets its role back is committed with the event', async () => {
  const { inbox, receiver } = open(
    async ({ id }, { tx }) => {
      await insertAsTenant(tx, id);
      await tx.query('SET LOCAL ROLE NONE');
    },
    { orderingKey: () => 'another account' },
  );
  const event = someEvent();
  expect(await receiver.handle(event, 'push')).toMatchObject({ kind: 'handled' });
  expect(await inbox.find(event.id)).toMatchObject({ state: 'done' });
});

async function insertAsTenant(tx: pg.PoolClient, id: string) {
  await tx.query("SET LOCAL ROLE tenant; SET LOCAL app.tenant TO 'one'");
  await tx.query("INSERT INTO tenant_1.ledger VALUES ($1, 'one')", [id]);
}
