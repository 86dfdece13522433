/** The worker that runs the contracts of inboxes and transactions in Durable Objects: each case in an object of its own, whose storage is empty. */
import { DurableObject, type DurableObjectNamespace } from 'cloudflare:workers';
import { type DurableObjectStorageLike, durableObjectInbox } from 'stablehooks/inboxes/durable-object';
import type { InboxUnderTest } from '../contracts/inbox/given.js';
import { inboxContract } from '../contracts/inbox.js';
import {
  type SynchronousTransactionsUnderTest,
  synchronousTransactionContract,
} from '../contracts/transaction-sync.js';

interface Env {
  readonly OBJECTS: DurableObjectNamespace;
}

interface Subject extends InboxUnderTest {
  readonly storage: DurableObjectStorageLike;
}

const event = (id: string) => ({
  id,
  type: 'transfer.settled',
  created_at: '2026-01-02T03:04:05Z',
  payload: {},
});

const cases: readonly { readonly name: string; run(subject: Subject): Promise<void> }[] = [
  ...inboxContract,
  ...synchronousTransactionContract.map(({ name, run }) => ({
    name: `transactions: ${name}`,
    run: ({ storage }: Subject) => run(transactionsOver(storage)),
  })),
  {
    name: 'a step that fails in a Durable Object is rolled back as a whole',
    async run({ inbox }) {
      const page = [event('good'), event(null as unknown as string)];
      const record = async () => inbox.record(page, { dueInMs: 0, origin: 'pull' });
      const result = await record().catch(() => 'rejected');
      const found = await inbox.find('good');
      if (result !== 'rejected' || found !== undefined) throw new Error(`${result}, ${found?.state}`);
    },
  },
  {
    name: 'the storage of a Durable Object that a newer release wrote is refused',
    async run({ storage }) {
      storage.sql.exec('UPDATE stablehooks_schema SET version = 999');
      const error = await (async () => String(durableObjectInbox(storage)))().catch(String);
      if (!error.includes('durableObjectInbox: a newer release of stablehooks')) throw new Error(error);
    },
  },
];

function transactionsOver(
  storage: DurableObjectStorageLike,
): SynchronousTransactionsUnderTest<DurableObjectStorageLike> {
  storage.sql.exec('CREATE TABLE ledger (id TEXT NOT NULL, number INTEGER CHECK (number > 0))');
  return {
    // The storage refuses COMMIT and ROLLBACK, so there is no `raw`.
    inbox: durableObjectInbox(storage, { transactional: true }),
    effect: (tx, id) => void tx.sql.exec('INSERT INTO ledger VALUES (?, 1)', id),
    fail: (tx) => void tx.sql.exec('INSERT INTO ledger VALUES (?, -1)', 'wrong'),
    countEffects: (id) => storage.sql.exec('SELECT id FROM ledger WHERE id = ?', id).toArray().length,
  };
}

export class Objects extends DurableObject<Env> {
  /** Runs a case, and answers with its error; with nothing when it passes. */
  override async fetch(request: Request): Promise<Response> {
    const { storage } = this.ctx;
    const [inbox, second] = [durableObjectInbox(storage), durableObjectInbox(storage)];
    const found = cases.find(({ name }) => request.url.endsWith(`/${encodeURIComponent(name)}`));
    try {
      if (found === undefined) throw new Error('There is no such case.');
      await found.run({ inbox, second, storage });
      return new Response(null);
    } catch (error) {
      return new Response(String(error));
    }
  }
}

export default {
  /** Lists the cases that failed, with their errors. */
  async fetch(_: Request, { OBJECTS }: Env): Promise<Response> {
    const failures: string[] = [];
    for (const { name } of cases) {
      const request = new Request(`http://object/${encodeURIComponent(name)}`);
      const error = await (await OBJECTS.getByName(name).fetch(request)).text();
      if (error !== '') failures.push(`${name}: ${error}`);
    }
    return Response.json(failures);
  },
};
