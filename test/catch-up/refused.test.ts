/** An event of the list that the database refuses. */
import { createPool } from 'mysql2/promise';
import pg from 'pg';
import { createReceiver, type Inbox, type UnknownEvent } from 'stablehooks';
import { acknowledgeGap, createPoller, listGaps, readPollState } from 'stablehooks/catch-up';
import { migrateMysql, mysqlInbox } from 'stablehooks/inboxes/mysql';
import { migratePostgres, postgresInbox } from 'stablehooks/inboxes/postgres';
import { expect, onTestFinished, test } from 'vitest';
import { someEvent } from '../inboxes/claimed.js';
import { startMariadb } from '../services/mariadb.js';
import { ownPostgres } from '../services/own-postgres.js';
import { startProxy } from '../services/proxy.js';
import { describeWithMariadb } from '../services/with-mariadb.js';

const own = ownPostgres();
const MINUTE_MS = 60_000;

/** A poller over a list of five events, of which the third has this memo. */
function setUp(inbox: Inbox, memo: string) {
  const now = Date.now();
  const events: readonly UnknownEvent[] = Array.from({ length: 5 }, (_, index) =>
    someEvent({
      created_at: new Date(now - (10 - index) * MINUTE_MS).toISOString(),
      payload: { memo: index === 2 ? memo : 'plain' },
    }),
  );
  const ran: string[] = [];
  const lines: string[] = [];
  const log = (line: string) => void lines.push(line);
  const logger = { warn: log, error: log };
  const receiver = createReceiver({
    ...{ secret: 'x', inbox, logger, inboxTimeoutMs: 2_000 },
    handlers: { 'transfer.settled': ({ id }) => void ran.push(id) },
  });
  const size = events.length;
  const client = { events: { listWithProblems: async () => ({ events, problems: [], size }) } };
  const since = new Date(now - 60 * MINUTE_MS);
  const poller = createPoller({ client, receiver, since, lagMs: 0, listMax: 1_000, logger });
  const [bad] = events.slice(2);
  if (bad === undefined) throw new Error('There are five events.');
  return { events, bad, good: events.filter((event) => event !== bad), ran, lines, poller };
}

type SetUp = ReturnType<typeof setUp>;

/** Polls twice, and expects a gap for the event alone. */
async function expectOthersRun(inbox: Inbox, { bad, good, ran, lines, poller }: SetUp, error: unknown) {
  const reports = [await poller.pollOnce(), await poller.pollOnce()] as const;
  expect(new Set(ran)).toEqual(new Set(good.map(({ id }) => id)));
  expect(reports[0]).toMatchObject({ new: 4, handled: 4, proven: false, problems: [] });
  expect(reports[0].diagnosis).toMatch(/^The inbox refuses the event/);
  const gap = { reason: 'not-stored', types: ['transfer.settled'], event: { id: bad.id, error } };
  expect(reports[0].gapsOpened).toMatchObject([gap]);
  expect(reports[1]).toMatchObject({ proven: true, gaps: [gap], gapsOpened: [], gapsClosed: [] });
  expect(reports[1].diagnosis).toMatch(/ is in the inbox, except in 1 open gap\./);
  const { watermark, gaps } = await readPollState(inbox);
  expect(watermark).toBeGreaterThan(Date.parse(bad.created_at));
  expect(gaps[0]).toMatchObject({ until: { 'transfer.settled': Date.parse(bad.created_at) } });
  const named = lines.filter((line) => line.includes(bad.id));
  expect(named).toHaveLength(1);
  expect(JSON.stringify([...lines, ...reports])).not.toMatch(/€|x{99}/);
}

test('an event that Postgres refuses is a gap with its id and the SQLSTATE, and the others of its page run', async () => {
  const schema = 'limited';
  await migratePostgres(own.pool, { schema });
  await own.pool.query(`ALTER TABLE ${schema}.events ADD CHECK (octet_length(event) < 100000)`);
  const inbox = postgresInbox(own.pool, { schema });
  const it = setUp(inbox, `€ ${'x'.repeat(200_000)}`);
  await expectOthersRun(inbox, it, '23514');

  const [gap] = await listGaps(inbox);
  await acknowledgeGap(inbox, gap as NonNullable<typeof gap>, { by: 'ops', reason: 'booked by hand' });
  const report = await it.poller.pollOnce();
  expect(report).toMatchObject({ proven: true, gaps: [], gapsOpened: [] });
});

test('a poll through an outage that begins while it records says so, and the watermark waits', async () => {
  const proxy = await startProxy(own.server.port);
  const url = new URL(own.server.url);
  url.port = String(proxy.port);
  const pool = new pg.Pool({ connectionString: url.href, query_timeout: 500 }).on('error', () => undefined);
  pool.on('connect', (client) => client.on('error', () => undefined));
  onTestFinished(() => void pool.end());
  const { poller, events, ran } = setUp(postgresInbox(pool), 'plain');
  let isOut = false;
  proxy.breaks = (sent) => {
    isOut ||= sent.includes('recorded AS');
    return isOut;
  };
  const report = await poller.pollOnce();
  expect(report).toMatchObject({ proven: false, watermark: null, gaps: [], new: 0 });
  expect(report.problems).toMatchObject([{ code: 'ERR_INBOX_FAILED' }, {}, {}]);
  proxy.breaks = () => false;
  expect(await poller.pollOnce()).toMatchObject({ proven: true, new: 5, gaps: [] });
  expect(ran).toHaveLength(events.length);
});

describeWithMariadb('MySQL', () => {
  test('an event above max_allowed_packet is a gap with its id and a code, which closes when the limit is raised', async () => {
    const server = await startMariadb(['--max-allowed-packet=1M']);
    onTestFinished(() => server.stop());
    const pool = createPool({ uri: server.url, connectionLimit: 4 });
    onTestFinished(() => pool.end());
    await migrateMysql(pool);
    const inbox = mysqlInbox(pool);
    const it = setUp(inbox, `€ ${'x'.repeat(900_000)}`);
    await expectOthersRun(
      inbox,
      it,
      expect.stringMatching(/^(ER_NET_PACKET_TOO_LARGE|EPIPE|ECONNRESET|PROTOCOL_CONNECTION_LOST)$/),
    );

    await pool.query('SET GLOBAL max_allowed_packet = 16777216');
    const larger = createPool({ uri: server.url, connectionLimit: 4 });
    onTestFinished(() => larger.end());
    // A session keeps the limit that it began with.
    const report = await setUpAgain(it, mysqlInbox(larger)).pollOnce();
    expect(report).toMatchObject({ new: 1, proven: true, gaps: [] });
    expect(report.gapsClosed).toMatchObject([{ reason: 'not-stored', event: { id: it.bad.id } }]);
  });
});

/** Another process over the same list. */
function setUpAgain({ events }: SetUp, inbox: Inbox) {
  const logger = { warn: () => undefined, error: () => undefined };
  const receiver = createReceiver({
    secret: 'x',
    inbox,
    logger,
    handlers: { 'transfer.settled': () => undefined },
  });
  const size = events.length;
  const client = { events: { listWithProblems: async () => ({ events, problems: [], size }) } };
  return createPoller({ client, receiver, lagMs: 0, listMax: 1_000, logger });
}
