/** What each adapter of a data layer does by itself: which values it takes, and its errors. */
import { randomUUID } from 'node:crypto';
import { Client as NeonClient } from '@neondatabase/serverless';
import { drizzle } from 'drizzle-orm/node-postgres';
import createKnex from 'knex';
import pg from 'pg';
import postgres from 'postgres';
import { createReceiver } from 'stablehooks';
import {
  fromDrizzle,
  fromKnex,
  fromPostgresJs,
  migratePostgres,
  type PgTransactionsLike,
  postgresInbox,
} from 'stablehooks/inboxes/postgres';
import { DataSource } from 'typeorm';
import { expect, test } from 'vitest';
import { ownPostgres } from '../services/own-postgres.js';
import { someEvent } from './claimed.js';

const own = ownPostgres();
const { pool: admin } = own;

/** Calls what must throw a ConfigError; returns its message. */
function refusal(call: () => unknown): string {
  try {
    call();
  } catch (error) {
    expect(error).toMatchObject({ code: 'ERR_CONFIG_INVALID' });
    return (error as Error).message;
  }
  return expect.fail('Nothing was thrown.');
}

test('a single Client is refused, because a transaction of others on it would undo what the inbox answered', async () => {
  const lent = await admin.connect();
  for (const client of [new pg.Client(own.server.url), new NeonClient(own.server.url), lent]) {
    for (const transactional of [true, false] as const) {
      const pass = () => postgresInbox(client as never, { transactional } as never);
      expect(refusal(pass)).toMatch(/Pool.*not a Client/);
    }
  }
  for (const client of [new pg.Client(own.server.url), lent]) {
    expect(refusal(() => fromDrizzle(drizzle(client)))).toMatch(/^fromDrizzle: .*Pool/);
  }
  await migratePostgres(lent);
  lent.release();
});

test('a data layer without its adapter is refused, and the error names the adapters', () => {
  const source = new DataSource({ type: 'postgres' });
  for (const transactional of [true, false] as const) {
    for (const layer of [source, source.manager, drizzle(admin), createKnex({ client: 'pg' })]) {
      const message = refusal(() => postgresInbox(layer as never, { transactional } as never));
      expect(message).toMatch(/fromPostgresJs.*fromDrizzle.*fromKysely.*fromKnex.*fromTypeOrm.*fromPrisma/);
    }
  }
});

/** A value with the keys of its objects in camel case, such as libraries make of what a data layer returns. */
function toCamelCase(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(toCamelCase);
  if (typeof value !== 'object' || value === null) return value;
  const toCamel = (name: string) => name.replaceAll(/_(.)/g, (_, letter) => letter.toUpperCase());
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [toCamel(name), toCamelCase(one)]));
}

/** An inbox over a data layer with these options, and the end of its connections. */
interface Opened {
  readonly pool: PgTransactionsLike<unknown>;
  close(): Promise<unknown>;
}

function openPostgresJs(options: object): Opened {
  const sql = postgres(own.server.url, { max: 2, ...options });
  return { pool: fromPostgresJs(sql), close: () => sql.end() };
}

function openKnex(options: object): Opened {
  const knex = createKnex({ client: 'pg', connection: own.server.url, ...options });
  return { pool: fromKnex(knex), close: () => knex.destroy() };
}

test.each([
  ['postgres.js with the transform postgres.camel', () => openPostgresJs({ transform: postgres.camel })],
  [
    'Knex with a postProcessResponse to camel case',
    () => openKnex({ postProcessResponse: (response: { readonly rows?: unknown }) => toCamelCase(response) }),
  ],
])('an inbox over %s takes the events of a key, and reads every field of a record', async (_, open) => {
  const { pool, close } = open();
  try {
    const inbox = postgresInbox(pool, { transactional: true });
    const [held, due] = [someEvent(), someEvent()];
    const lease = { leaseMs: 60_000, origin: 'push' } as const;
    await inbox.claim(held, lease);
    const claim = await inbox.claim(held, lease);
    expect(claim).toMatchObject({ state: 'leased' });
    if (claim.state === 'leased') expect(claim.retryAfterMs).toBeGreaterThan(30_000);
    await inbox.record([due], { dueInMs: 0, origin: 'pull', keys: [randomUUID()] });
    const taken = await inbox.takeDue({
      limit: 10,
      visibilityTimeoutMs: 60_000,
      types: ['transfer.settled'],
    });
    expect(taken.map(({ json }) => JSON.parse(json))).toEqual([due]);
    expect(await inbox.find(held.id)).toEqual(await postgresInbox(admin).find(held.id));
  } finally {
    await close();
  }
});

test('an inbox over postgres.js with fetch_types: false records pages and takes what is due', async () => {
  const { pool, close } = openPostgresJs({ fetch_types: false });
  try {
    const inbox = postgresInbox(pool, { transactional: true });
    const page = ['"', '\\', '{a,b}', 'NULL', ' \n '].map((text) => ({
      ...someEvent(),
      id: `${randomUUID()} ${text}`,
      type: `mint.${randomUUID()} ${text}`,
    }));
    const keys = page.map(({ id }) => id);
    expect(new Set(await inbox.record(page, { dueInMs: null, origin: 'pull', keys }))).toEqual(
      new Set(['new']),
    );
    for (const [index, { id }] of page.entries()) {
      expect(await inbox.find(id)).toMatchObject({ event: page[index], key: id });
    }
    const types = page.map(({ type }) => type);
    const taken = await inbox.takeDue({ limit: 10, visibilityTimeoutMs: 60_000, types });
    expect(new Set(taken.map(({ json }) => JSON.parse(json)))).toEqual(new Set(page));
    await expect(
      inbox.takeDue({ limit: 1, visibilityTimeoutMs: 60_000, types: ['transfer.settled'] }),
    ).resolves.toBeInstanceOf(Array);
  } finally {
    await close();
  }
});

test('an error over Knex has the message of the server without the statement, its code, and no value', async () => {
  const { pool, close } = openKnex({});
  try {
    const duplicate = 'INSERT INTO stablehooks.notes (name) SELECT $1::text FROM generate_series(1, 2)';
    const error = await pool
      .query(duplicate, ['5f7b7a52-7d0f-4f8f-8d4c-0f2f8a3b6c11'])
      .catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({
      message: 'duplicate key value violates unique constraint "notes_pkey"',
      code: '23505',
    });
    expect(JSON.stringify(error) + (error as Error).stack).not.toContain('5f7b7a52');
  } finally {
    await close();
  }
});

test('an error over Knex that does not begin with the statement is passed on as it is', async () => {
  const thrown = new Error('Connection terminated');
  const fail = () => Promise.reject(thrown);
  const layer = fromKnex({ raw: fail, transaction: fail });
  await expect(layer.query('SELECT 1')).rejects.toBe(thrown);
  await expect(layer.transaction(async () => undefined)).rejects.toBe(thrown);
  expect(thrown.message).toBe('Connection terminated');
});

test('a handler over postgres.js sends values of its own types', async () => {
  const lowered = {
    to: 25,
    from: [],
    serialize: (text: string) => text.toLowerCase(),
    parse: String,
  };
  const sql = postgres(own.server.url, { max: 1, types: { lowered } });
  let sent: unknown;
  const receiver = createReceiver({
    secret: 'x',
    inbox: postgresInbox(fromPostgresJs(sql), { transactional: true }),
    handlers: {
      'transfer.settled': async (_, { tx }) => {
        [sent] = await tx`SELECT ${tx.types.lowered('ONE')} AS one, ${tx.typed.lowered('TWO')} AS two`;
      },
    },
  });
  expect(await receiver.handle(someEvent(), 'push')).toMatchObject({ kind: 'handled' });
  expect(sent).toEqual({ one: 'one', two: 'two' });
  await receiver.close();
  await sql.end();
});

test('a claim that waited for another has its whole lease', async () => {
  const inbox = postgresInbox(admin);
  const event = someEvent();
  await inbox.record([event], { dueInMs: 0, origin: 'push' });
  const blocker = await own.begin('SELECT FROM stablehooks.events WHERE id = $1 FOR UPDATE', [event.id]);
  const claiming = inbox.claim(event, { leaseMs: 60_000, origin: 'push' });
  await own.untilBlocked();
  const { rows } = await admin.query(
    'SELECT extract(epoch FROM clock_timestamp())::float8 * 1000 AS unlocked',
  );
  await blocker.query('COMMIT');
  expect((await claiming).state).toBe('claimed');
  expect((await inbox.find(event.id))?.dueAt).toBeGreaterThanOrEqual(Math.floor(rows[0].unlocked) + 60_000);
});
