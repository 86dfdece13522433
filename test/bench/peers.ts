/**
 * What people use in place of an inbox in Postgres. Each peer does the whole work of `exactly-once.ts`: a step ends when the
 * row of an event is committed, and a copy of the event adds no second row, even if the process dies at any moment.
 */
import { createHash } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { DBOS } from '@dbos-inc/dbos-sdk';
import { PostgresDataSource } from '@dbos-inc/postgres-datasource';
import { Logger, run } from 'graphile-worker';
import type pg from 'pg';
import { PgBoss } from 'pg-boss';
import type { UnknownEvent } from 'stablehooks';
import { enter, inTransaction, transact } from './ledger.js';

export interface Peer {
  readonly name: string;
  step(event: UnknownEvent): Promise<unknown>;
  stop(): Promise<void>;
}

export const PEERS: readonly ((url: string, pool: pg.Pool) => Promise<Peer>)[] = [
  startDbos,
  startPgBoss,
  startGraphileWorker,
];

/** The event id is the workflow id. The data source commits the row together with the record that its step is done. */
async function startDbos(url: string): Promise<Peer> {
  const { hostname: host, port, username, password, pathname } = new URL(url);
  const source = new PostgresDataSource('ledger', {
    ...{ host, port: Number(port), username, password, database: pathname.slice(1) },
    onnotice: () => undefined,
  });
  const write = source.registerTransaction(
    async (id: string) => void (await source.client`INSERT INTO ledger VALUES (${id})`),
    { name: 'write' },
  );
  const handle = DBOS.registerWorkflow(({ id }: UnknownEvent) => write(id), { name: 'handle' });
  DBOS.setConfig({ name: 'bench', systemDatabaseUrl: url, runAdminServer: false, logLevel: 'error' });
  await DBOS.launch();
  return {
    name: 'DBOS Transact',
    step: (event) => DBOS.withNextWorkflowID(event.id, () => handle(event)),
    stop: () => DBOS.shutdown(),
  };
}

/**
 * The job id is a hash of the event id, and completed jobs stay for a week, so a copy is refused. The row and the job's
 * completion are one transaction. Each step fetches a job itself: a worker of pg-boss is slower here, even if notified.
 */
async function startPgBoss(url: string, pool: pg.Pool): Promise<Peer> {
  const boss = new PgBoss(url).on('error', (error) => console.error(error));
  await boss.start();
  await boss.createQueue('events');
  /** Every step finds a job, though it may be another lane's. A job that another fetch is about to commit is passed over. */
  const take = async () => {
    for (;;) {
      const [job] = await boss.fetch<UnknownEvent>('events');
      if (job !== undefined) return job;
    }
  };
  return {
    name: 'pg-boss',
    async step(event) {
      const id = createHash('sha256').update(event.id).digest('hex').slice(0, 32);
      if ((await boss.send('events', event, { id })) === null) return;
      const job = await take();
      await transact(pool, async (client) => {
        await client.query(enter(job.data.id));
        const db = { executeSql: (text: string, values: unknown[]) => client.query(text, values) };
        // Its types leave this out. A job that expired may have run elsewhere.
        const { affected } = (await boss.complete('events', job.id, null, { db })) as { affected: number };
        if (affected !== 1) throw new Error(`Job ${job.id} is not ours.`);
      });
    },
    stop: () => boss.stop({ graceful: false }),
  };
}

/**
 * A job is deleted after its handler, in another transaction. So the handler's transaction notes the event id, as the one by
 * hand does, and skips an event that runs again or is a copy. Jobs are fetched and deleted in batches.
 */
async function startGraphileWorker(url: string, pool: pg.Pool): Promise<Peer> {
  await pool.query('CREATE TABLE seen_by_worker (id text PRIMARY KEY)');
  const finished = new EventEmitter().setMaxListeners(0);
  const runner = await run({
    taskList: {
      async handle(payload, { withPgClient }) {
        const { id, step } = payload as { readonly id: string; readonly step: string };
        await withPgClient((client) =>
          inTransaction(client, async () => {
            const text = 'INSERT INTO seen_by_worker VALUES ($1) ON CONFLICT DO NOTHING';
            const { rowCount } = await client.query({ name: 'see', text, values: [id] });
            if (rowCount === 1) await client.query(enter(id));
          }),
        );
        finished.emit(step);
      },
    },
    noHandleSignals: true,
    logger: new Logger(() => (level, message) => level === 'error' && console.error(message)),
    preset: {
      worker: {
        ...{ connectionString: url, maxPoolSize: 20, concurrentJobs: 10 },
        ...{ localQueue: { size: 11 }, completeJobBatchDelay: 0 },
      },
    },
  });
  runner.events.on('job:error', ({ error }) => finished.emit('error', error));
  let steps = 0;
  return {
    name: 'graphile-worker',
    async step(event) {
      steps += 1;
      const step = String(steps);
      const done = once(finished, step);
      await runner.addJob('handle', { ...event, step });
      await done;
    },
    stop: () => runner.stop(),
  };
}
