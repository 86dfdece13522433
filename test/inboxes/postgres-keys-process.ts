/** A process that runs what is due until everything is done; postgres-keys-processes.slow.test.ts starts it. */
import pg from 'pg';
import { createReceiver } from 'stablehooks';
import { postgresInbox } from 'stablehooks/inboxes/postgres';

/** The argument of the process, as JSON. */
export interface RunnerOptions {
  readonly url: string;
  readonly schema: string;
  /** Whether the receiver has an `orderingKey`. */
  readonly keyed: boolean;
  readonly events: number;
}

const { url, schema, keyed, events } = JSON.parse(process.argv[2] ?? '') as RunnerOptions;
const pool = new pg.Pool({ connectionString: url, max: 12 });
const inbox = postgresInbox(pool, { schema });
const accountOf = ({ payload }: { readonly payload: Readonly<Record<string, unknown>> }) =>
  String(payload['account']);

const receiver = createReceiver({
  secret: 'x',
  inbox,
  ...(keyed && { orderingKey: accountOf }),
  handlers: {
    'transfer.settled': async (event) => {
      const account = accountOf(event);
      // The primary key refuses a second event of the account.
      const begun = await pool
        .query(`INSERT INTO ${schema}.running VALUES ($1)`, [account])
        .catch((error) => String(error.code));
      await pool.query(`INSERT INTO ${schema}.ledger (id, overlapped) VALUES ($1, $2)`, [
        event.id,
        begun === '23505',
      ]);
      if (begun !== '23505') await pool.query(`DELETE FROM ${schema}.running WHERE account = $1`, [account]);
    },
  },
});
const isDone = async () => (await inbox.count()).find(({ state }) => state === 'done')?.count === events;
while (!(await isDone())) await receiver.redrive();
await receiver.close();
await pool.end();
