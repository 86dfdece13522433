import Database from 'libsql';
import { createReceiver, PermanentError, type ReceiverOptions, type UnknownEvent } from 'stablehooks';
import { createPoller } from 'stablehooks/catch-up';
import { createClient } from 'stablehooks/client';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { toNodeHandler } from 'stablehooks/node';
import { exampleEvent } from 'stablehooks/testing';
import { describe, expect, test } from 'vitest';
import { withMark } from '../../src/io/inbox-owner.js';
import { makeFolder, run, SECRET } from '../command.js';
import { serve } from '../http-server.js';
import { fire, type Service, SILENT, startEndpoint, startService, TOKEN } from '../service.js';
import { openSqlite } from '../sqlite-file.js';

interface App extends AsyncDisposable {
  readonly url: string;
  /** The ids of the events whose handler ran, in their order. */
  readonly ran: readonly string[];
  /** Runs what is due in the inbox ten minutes later, and the jobs of the queue. */
  work(): Promise<void>;
  /** Polls the list of the service, as the poller of the app does. */
  poll(service: Service): Promise<void>;
}

/** An app with its inbox in a file. */
async function startApp(
  path: string,
  {
    queued = false,
    permanent = false,
    ...options
  }: Partial<ReceiverOptions> & {
    readonly queued?: boolean;
    readonly permanent?: boolean;
  } = {},
): Promise<App> {
  let aheadMs = 0;
  const db = new Database(path);
  const inbox = sqliteInbox(db, { runtime: { now: () => Date.now() + aheadMs } });
  const jobs: UnknownEvent[] = [];
  const ran: string[] = [];
  const receiver = createReceiver({
    secret: SECRET,
    inbox,
    logger: SILENT,
    handlers: {
      'transfer.settled': ({ id }) => {
        ran.push(id);
        if (permanent) throw new PermanentError('the account was closed');
      },
    },
    ...(queued && { queue: { enqueue: async (event) => void jobs.push(event) } }),
    ...options,
  });
  const server = await serve(toNodeHandler(receiver));
  return {
    url: `${server.url}/hooks`,
    ran,
    async work() {
      // Events that a poll recorded and did not run are due once its process must have ended.
      aheadMs += 600_000;
      await receiver.redrive();
      for (const job of jobs.splice(0)) await receiver.handle(job, 'queue');
    },
    async poll({ url: baseUrl }) {
      const client = createClient({ baseUrl, token: TOKEN });
      const since = new Date(Date.now() - 3_600_000);
      await createPoller({ client, receiver, since, logger: SILENT }).pollOnce();
    },
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      await receiver.close();
      db.close();
    },
  };
}

/** How the endpoint takes a delivery while another process has the event leased. */
const APPS: readonly (readonly [string, Parameters<typeof startApp>[1]])[] = [
  ['runs the handler before it answers', {}],
  ['answers before the handler runs', { answer: 'recorded' }],
  ['has a queue', { queued: true }],
  ['dead-letters the event', { permanent: true }],
  ['answers first and dead-letters the event', { permanent: true, answer: 'recorded' }],
];

const ADVICE =
  /stablehooks: The endpoint uses this same inbox\. .*pass an --inbox that only `catch-up` and `listen` use, such as --inbox catch-up\.db\.\n$/;

describe.concurrent('an app and `catch-up` or `listen` with the same inbox', () => {
  test.for(APPS)(
    'catch-up to an app that %s says that both use one inbox, and the app runs every event once',
    async ([, options]) => {
      await using folder = await makeFolder();
      await using service = await startService();
      const path = folder.at('app.db');
      await using app = await startApp(path, options);
      const ids = fire(service.sandbox, 6);
      const args = ['catch-up', '--to', app.url, '--inbox', path, '--since', '1h'];
      const { stdout, stderr, exitCode } = await run(args, service);
      expect(stderr).toMatch(ADVICE);
      expect(stdout).not.toContain('proven');
      expect(exitCode).toBe(2);
      using inbox = await openSqlite(path);
      const counts = await inbox.count();
      expect(counts.filter(({ state, count }) => ['leased', 'failed'].includes(state) && count > 0)).toEqual(
        [],
      );
      // No event is done although no handler ran, and none has an attempt that was not the app's.
      await app.work();
      expect(app.ran.toSorted()).toEqual(ids.toSorted());
      for (const id of ids) {
        const record = await inbox.find(id);
        expect(record).toMatchObject({ state: options?.permanent ? 'dead' : 'done', attempts: 1 });
      }
    },
  );

  test('catch-up to an app that has no handler and the same inbox says so, and another process of the app runs the events', async () => {
    await using folder = await makeFolder();
    await using service = await startService();
    const path = folder.at('app.db');
    await using front = await startApp(path, { handlers: {} });
    await using app = await startApp(path);
    const ids = fire(service.sandbox, 6);
    const args = ['catch-up', '--to', front.url, '--inbox', path, '--since', '1h'];
    const { stdout, stderr, exitCode } = await run(args, service);
    expect(stdout).toContain('202 queued');
    expect(stderr).toMatch(ADVICE);
    expect(exitCode).toBe(2);
    await app.work();
    expect(app.ran.toSorted()).toEqual(ids.toSorted());
  });

  test('catch-up delivers the other events when the endpoint is busy with one', async () => {
    await using folder = await makeFolder();
    await using service = await startService();
    const ids = fire(service.sandbox, 6);
    const path = folder.at('app.db');
    await using app = await startApp(path);
    // As a push of this event that runs at the same time.
    using inbox = await openSqlite(path);
    const [event] = service.sandbox.events({ order: 'oldest' });
    if (event !== undefined) await inbox.claim(event, { leaseMs: 60_000, origin: 'push' });
    const args = ['catch-up', '--to', app.url, '--inbox', folder.at('catch-up.db'), '--since', '1h'];
    const { stdout, stderr, exitCode } = await run(args, service);
    expect(stderr).not.toContain('same inbox');
    expect(stdout).toMatch(new RegExp(`${ids[0]} {2}503 ERR_EVENT_BUSY `));
    expect(stdout).toMatch(/\ndelivered +5 now, 0 before, 1 failed\n/);
    expect(app.ran.toSorted()).toEqual(ids.slice(1).toSorted());
    expect(exitCode).toBe(1);
  });

  test('listen with the inbox of an app that has received nothing yet ends, and the app runs every event once', async () => {
    await using folder = await makeFolder();
    await using service = await startService();
    const path = folder.at('app.db');
    await using app = await startApp(path);
    const ids = fire(service.sandbox, 6);
    const { stderr, exitCode } = await run(
      ['listen', '--to', app.url, '--inbox', path, '--since', '1h'],
      service,
    );
    expect(stderr).toMatch(ADVICE);
    expect(exitCode).toBe(2);
    await app.work();
    expect(app.ran.toSorted()).toEqual(ids.toSorted());
  });

  test.for(['catch-up', 'listen'])(
    '%s refuses an inbox with events that an app received, and changes nothing',
    async (command) => {
      await using folder = await makeFolder();
      await using service = await startService();
      const path = folder.at('app.db');
      await using app = await startApp(path);
      using inbox = await openSqlite(path);
      const { id } = exampleEvent('transfer.settled');
      await inbox.record([{ ...exampleEvent('transfer.settled'), id }], { dueInMs: 0, origin: 'push' });
      await app.work();
      fire(service.sandbox, 1);
      const before = [await inbox.count(), await inbox.pollState()];
      const args = [command, '--to', app.url, '--inbox', path, '--since', '1h'];
      const { stdout, stderr, exitCode } = await run(args, service);
      expect(stderr).toMatch(
        /^stablehooks: \S+app\.db is the inbox of an app: .* pass an --inbox that only `catch-up` and `listen` use/,
      );
      expect(stdout).toBe('');
      expect(exitCode).toBe(2);
      expect([await inbox.count(), await inbox.pollState()]).toEqual(before);
      expect(app.ran).toEqual([id]);
    },
  );
});

/** A page that is not the app, such as that of a wrong path behind a proxy. */
const startPage = () => serve((_, response) => void response.end('<html>'));

/** The output of the command, and the inbox before and after it. */
async function runWith(path: string, service: Service, args: readonly string[]) {
  using inbox = await openSqlite(path);
  const read = async () => [await inbox.count(), await inbox.pollState(), await inbox.lastPoller()];
  const before = await read();
  return { ...(await run([...args, '--inbox', path], service)), before, after: await read() };
}

describe.concurrent('an inbox in which no receiver has recorded an event', () => {
  const REFUSED = /^stablehooks: \S+app\.db is the inbox of an app: .* not of `catch-up` or `listen`\. .*\n$/;

  test.for([
    ['catch-up', 'an event that failed', 1],
    ['listen', 'an event that failed', 1],
    ['catch-up', 'nothing', 0],
    ['listen', 'nothing', 0],
  ] as const)(
    '%s refuses it when the poller of an app has found %s, and changes nothing',
    async ([command, , events]) => {
      await using folder = await makeFolder();
      await using service = await startService();
      await using page = await startPage();
      const path = folder.at('app.db');
      const fail = () => {
        throw new Error('the ledger is down');
      };
      await using app = await startApp(path, { handlers: { 'transfer.settled': fail } });
      fire(service.sandbox, events);
      await app.poll(service);
      fire(service.sandbox, 1);
      const args = [command, '--to', page.url, '--since', '1h'];
      const { stdout, stderr, exitCode, before, after } = await runWith(path, service, args);
      expect(stderr).toMatch(REFUSED);
      expect(stdout).toBe('');
      expect(exitCode).toBe(2);
      expect(after).toEqual(before);
    },
  );

  test('catch-up refuses it when reconcile of an app has recorded an event', async () => {
    await using folder = await makeFolder();
    await using service = await startService();
    const path = folder.at('app.db');
    using inbox = await openSqlite(path);
    await inbox.record([exampleEvent('transfer.settled')], { dueInMs: 0, origin: 'pull' });
    const args = ['catch-up', '--to', 'http://127.0.0.1:1/', '--since', '1h'];
    const { stderr, exitCode, before, after } = await runWith(path, service, args);
    expect(stderr).toMatch(REFUSED);
    expect(exitCode).toBe(2);
    expect(after).toEqual(before);
  });

  test('catch-up refuses its own inbox once the poller of an app has polled with it', async () => {
    await using folder = await makeFolder();
    await using service = await startService();
    const path = folder.at('app.db');
    const args = ['catch-up', '--to', 'http://127.0.0.1:1/', '--since', '1h'];
    for (const count of [1, 2]) {
      const { stderr } = await runWith(path, service, args);
      expect(stderr, `run ${count}`).toBe('');
    }
    await using app = await startApp(path);
    await app.poll(service);
    const { stderr, exitCode } = await runWith(path, service, args);
    expect(stderr).toMatch(REFUSED);
    expect(exitCode).toBe(2);
  });

  test('it is the inbox of an app from the moment at which catch-up finds out that the endpoint uses it', async () => {
    await using folder = await makeFolder();
    await using service = await startService();
    await using page = await startPage();
    const path = folder.at('app.db');
    await using app = await startApp(path, { permanent: true });
    const [id = ''] = fire(service.sandbox, 1);
    const args = ['catch-up', '--to', app.url, '--since', '1h'];
    expect((await runWith(path, service, args)).stderr).toMatch(ADVICE);
    await app.work();
    expect((await runWith(path, service, args)).stderr).toMatch(REFUSED);
    const redrive = await runWith(path, service, ['inbox', 'redrive', id, '--to', page.url]);
    expect(redrive.stderr).toContain(`${id} is unchanged: `);
    expect(redrive.exitCode).toBe(1);
  });

  test('catch-up goes on with its inbox after gaps acknowledge', async () => {
    await using folder = await makeFolder();
    await using service = await startService();
    await using endpoint = await startEndpoint();
    const path = folder.at('catch-up.db');
    const args = ['catch-up', '--to', endpoint.url, '--since', '1h', '--lag', '0'];
    await runWith(path, service, args);
    // The service is down for longer than the list can show.
    const from = Date.now() - 1_000;
    {
      using opened = await openSqlite(path);
      const inbox = withMark(opened);
      const holder = { holder: 'a poller', leaseMs: 0 };
      const state = await inbox.acquirePoll(holder);
      const until = { 'transfer.settled': from + 1 };
      const gap = { from, until, reason: 'no-answer', openedAt: from, acknowledged: null } as const;
      if (state !== null) await inbox.savePoll({ ...state, gaps: [gap] }, holder);
    }
    const acknowledge = ['gaps', 'acknowledge', '--from', new Date(from).toISOString()];
    const accepted = await runWith(path, service, [...acknowledge, '--by', 'ada', '--reason', 'compared']);
    expect(accepted.stderr).toBe('');
    expect(accepted.exitCode).toBe(0);
    const [id = ''] = fire(service.sandbox, 1);
    expect((await runWith(path, service, args)).stdout).toMatch(/\ndelivered +1 now/);
    expect(endpoint.handled()).toEqual([id]);
  });
});
