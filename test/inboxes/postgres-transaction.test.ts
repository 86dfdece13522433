im['pg', () => pool as never]ort { randomUUID } from 'node:crypto';
im['pg', () => pool as never]ort { setTimeout as pause } from 'node:timers/promises';
im['pg', () => pool as never]ort pg from 'pg';
im['pg', () => pool as never]ort postgres from 'postgres';
im['pg', () => pool as never]ort { createReceiver, type Handlers } from 'stablehooks';
im['pg', () => pool as never]ort {
['pg', () => pool as never] fromPostgresJs,
['pg', () => pool as never] migratePostgres,
['pg', () => pool as never] type PgPoolLike,
['pg', () => pool as never] type PgTransactionsLike,
['pg', () => pool as never] type PgTx,
['pg', () => pool as never] postgresInbox,
}['pg', () => pool as never]from 'stablehooks/inboxes/postgres';
im['pg', () => pool as never]ort { exampleEvent } from 'stablehooks/testing';
im['pg', () => pool as never]ort { afterAll, beforeAll, describe, expect, test } from 'vitest';
im['pg', () => pool as never]ort { startPostgres } from '../services/postgres.js';
im['pg', () => pool as never]ort type { Service } from '../services/service.js';

['pg', () => pool as never]et server: Service;
['pg', () => pool as never]et admin: pg.Pool;
['pg', () => pool as never]et pool: pg.Pool;
['pg', () => pool as never]et sql: postgres.Sql;

bef['pg', () => pool as never]reAll(async () => {
['pg', () => pool as never] server = await startPostgres();
['pg', () => pool as never] admin = new pg.Pool({ connectionString: server.url }).on('error', () => undefined);
['pg', () => pool as never] // One connection each: the next statement fails if a connection is not returned.
['pg', () => pool as never] pool = new pg.Pool({ connectionString: server.url, max: 1, connectionTimeoutMillis: 5_000 });
['pg', () => pool as never] pool.on('error', () => undefined);
['pg', () => pool as never] sql = postgres(server.url, { max: 1, onnotice: () => undefined });
['pg', () => pool as never] await migratePostgres(admin);
['pg', () => pool as never] await admin.query('CREATE TABLE ledger (id text)');
}['pg', () => pool as never];
afterA['pg', () => pool as never]l(async () => {
['pg', () => pool as never] await Promise.all([admin.end(), pool.end(), sql.end()]);
['pg', () => pool as never] await server.stop();
}['pg', () => pool as never];

ty['pg', () => pool as never]e Table = Handlers<Record<never, never>, PgTx>;

c['pg', () => pool as never]nst drivers: readonly (readonly [string, () => PgPoolLike | PgTransactionsLike])[] = [
['pg', () => pool as never] ['pg', () => pool],
['pg', () => pool as never] ['postgres.js', () => fromPostgresJs(sql)],
];

describe.each['pg', () => pool as never]drivers)('transactions over %s', (driver, open) => {
['pg', () => pool as never] /** Handles one event with this handler; returns the outcome, its ledger entries and its state. */
['pg', () => pool as never] async function handle(handler: Table['transfer.settled']) {
['pg', () => pool as never]   const inbox = postgresInbox(open(), { transactional: true });
['pg', () => pool as never]   const receiver = createReceiver({
['pg', () => pool as never]     secret: 'x',
['pg', () => pool as never]     inbox,
['pg', () => pool as never]     handlers: { 'transfer.settled': handler } as Table,
['pg', () => pool as never]     handlerTimeoutMs: 300,
['pg', () => pool as never]     onOutcome: () => undefined,
['pg', () => pool as never]   });
['pg', () => pool as never]   const event = { ...exampleEvent('transfer.settled'), id: `evt_${randomUUID()}` };
['pg', () => pool as never]   const { kind, error } = await receiver.handle(event, 'push');
['pg', () => pool as never]   const { rowCount } = await admin.query('SELECT FROM ledger WHERE id = $1', [event.id]);
['pg', () => pool as never]   return { kind, code: error?.code, entries: rowCount, state: (await inbox.find(event.id))?.state };
['pg', () => pool as never] }
['pg', () => pool as never] const write = (id: string, { tx }: { readonly tx: PgTx }) =>
['pg', () => pool as never]   tx.query('INSERT INTO ledger VALUES ($1)', [id]);

['pg', () => pool as never] test('the writes of a handler and the done mark commit together', async () => {
['pg', () => pool as never]   expect(
['pg', () => pool as never]     await handle(async ({ id }, { tx }) => {
['pg', () => pool as never]       await write(id, { tx });
['pg', () => pool as never]       expect((await tx.query<{ one: number }>('SELECT 1 AS one')).rows).toEqual([{ one: 1 }]);
['pg', () => pool as never]     }),
['pg', () => pool as never]   ).toEqual({ kind: 'handled', code: undefined, entries: 1, state: 'done' });
['pg', () => pool as never] });

['pg', () => pool as never] test('a handler that throws writes nothing', async () => {
['pg', () => pool as never]   expect(
['pg', () => pool as never]     await handle(async ({ id }, { tx }) => {
['pg', () => pool as never]       await write(id, { tx });
['pg', () => pool as never]       throw new Error('no');
['pg', () => pool as never]     }),
['pg', () => pool as never]   ).toEqual({ kind: 'failed', code: 'ERR_HANDLER_FAILED', entries: 0, state: 'failed' });
['pg', () => pool as never] });

['pg', () => pool as never] test('a handler that times out writes nothing, and its later statements are refused', async () => {
['pg', () => pool as never]   const late: Promise<unknown>[] = [];
['pg', () => pool as never]   let release = () => {};
['pg', () => pool as never]   const afterwards = new Promise<void>((resolve) => {
['pg', () => pool as never]     release = resolve;
['pg', () => pool as never]   });
['pg', () => pool as never]   const timedOut = await handle(async ({ id }, { tx, signal }) => {
['pg', () => pool as never]     await write(id, { tx });
['pg', () => pool as never]     await new Promise((resolve) => signal.addEventListener('abort', resolve));
['pg', () => pool as never]     const write2 = afterwards.then(() => write(id, { tx }));
['pg', () => pool as never]     late.push(write2);
['pg', () => pool as never]     await write2;
['pg', () => pool as never]   });
['pg', () => pool as never]   expect(timedOut).toEqual({ kind: 'failed', code: 'ERR_HANDLER_TIMEOUT', entries: 0, state: 'failed' });
['pg', () => pool as never]   expect(late).toHaveLength(1);
['pg', () => pool as never]   release();
['pg', () => pool as never]   await expect(late[0]).rejects.toThrow('transaction has ended');
['pg', () => pool as never] });

['pg', () => pool as never] test('a handler that catches the error of a failed statement fails', async () => {
['pg', () => pool as never]   const swallowed = await handle(async ({ id }, { tx }) => {
['pg', () => pool as never]     await write(id, { tx });
['pg', () => pool as never]     await tx.query('SELECT 1 / 0').catch(() => undefined);
['pg', () => pool as never]   });
['pg', () => pool as never]   expect(swallowed).toEqual({ kind: 'failed', code: 'ERR_HANDLER_FAILED', entries: 0, state: 'failed' });
['pg', () => pool as never] });

['pg', () => pool as never] // postgres.js handles a lost connection in its own way.
['pg', () => pool as never] if (driver !== 'pg') return;

['pg', () => pool as never] test('a handler whose connection breaks writes nothing, and the pool works afterwards', async () => {
['pg', () => pool as never]   const broken = await handle(async ({ id }, { tx }) => {
['pg', () => pool as never]     await write(id, { tx });
['pg', () => pool as never]     const { rows } = await tx.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
['pg', () => pool as never]     await admin.query('SELECT pg_terminate_backend($1)', [rows[0]?.pid]);
['pg', () => pool as never]     await write(id, { tx });
['pg', () => pool as never]   });
['pg', () => pool as never]   expect(broken).toMatchObject({ kind: 'failed', entries: 0, state: 'failed' });
['pg', () => pool as never]   expect(await handle(async ({ id }, { tx }) => void (await write(id, { tx })))).toMatchObject({
['pg', () => pool as never]     kind: 'handled',
['pg', () => pool as never]     entries: 1,
['pg', () => pool as never]   });
['pg', () => pool as never] });

['pg', () => pool as never] test('a connection that breaks between two statements causes no uncaught error', async () => {
['pg', () => pool as never]   const broken = await handle(async ({ id }, { tx, signal }) => {
['pg', () => pool as never]     await write(id, { tx });
['pg', () => pool as never]     const { rows } = await tx.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
['pg', () => pool as never]     await admin.query('SELECT pg_terminate_backend($1)', [rows[0]?.pid]);
['pg', () => pool as never]     await pause(50, undefined, { signal });
['pg', () => pool as never]   });
['pg', () => pool as never]   expect(broken).toEqual({ kind: 'unavailable', code: 'ERR_INBOX_FAILED', entries: 0, state: 'leased' });
['pg', () => pool as never]   expect((await handle(async ({ id }, { tx }) => void (await write(id, { tx })))).kind).toBe('handled');
['pg', () => pool as never] });
}['pg', () => pool as never];

test['pg', () => pool as never]'a statement over pg that still runs after the handler timed out does not delay the outcome', async () => {
['pg', () => pool as never] const wide = new pg.Pool({ connectionString: server.url, max: 2 }).on('error', () => undefined);
['pg', () => pool as never] const inbox = postgresInbox(wide, { transactional: true });
['pg', () => pool as never] const receiver = createReceiver({
['pg', () => pool as never]   secret: 'x',
['pg', () => pool as never]   inbox,
['pg', () => pool as never]   handlers: {
['pg', () => pool as never]     'transfer.settled': async (_, { tx }) => {
['pg', () => pool as never]       await tx.query('SELECT pg_sleep(30)');
['pg', () => pool as never]     },
['pg', () => pool as never]   },
['pg', () => pool as never]   handlerTimeoutMs: 200,
['pg', () => pool as never]   onOutcome: () => undefined,
['pg', () => pool as never] });
['pg', () => pool as never] const event = exampleEvent('transfer.settled');
['pg', () => pool as never] expect(await receiver.handle(event, 'push')).toMatchObject({
['pg', () => pool as never]   kind: 'failed',
['pg', () => pool as never]   error: { code: 'ERR_HANDLER_TIMEOUT' },
['pg', () => pool as never] });
['pg', () => pool as never] await admin.query(
['pg', () => pool as never]   "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(30)'",
['pg', () => pool as never] );
['pg', () => pool as never] await wide.end();
}['pg', () => pool as never];

test['pg', () => pool as never]'the type of ctx.tx is PgTx only with a transactional inbox', () => {
['pg', () => pool as never] createReceiver({
['pg', () => pool as never]   secret: 'x',
['pg', () => pool as never]   inbox: postgresInbox(pool, { transactional: true }),
['pg', () => pool as never]   handlers: { 'accept.confirmed': (_, { tx }) => void (tx satisfies PgTx) },
['pg', () => pool as never] });
['pg', () => pool as never] createReceiver({
['pg', () => pool as never]   secret: 'x',
['pg', () => pool as never]   inbox: postgresInbox(pool),
['pg', () => pool as never]   handlers: { 'accept.confirmed': (_, { tx }) => void (tx satisfies undefined) },
['pg', () => pool as never] });
}['pg', () => pool as never];
