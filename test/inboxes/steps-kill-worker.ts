/** The process that `steps-kills.test.ts` kills: pays by steps what is due in the inbox. */
import Database from 'libsql';
import pg from 'pg';
import type { HandlerContext, Inbox, UnknownEvent } from 'stablehooks';
import { postgresInbox } from 'stablehooks/inboxes/postgres';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { workUntilKilled } from './work-until-killed.js';

const { STORE = '', URL = '', BANK = '', MODE = '' } = process.env;

interface Tx {
  query(text: string, values: unknown[]): Promise<unknown>;
}

function openInbox(): Inbox<unknown> {
  if (STORE === 'sqlite') return sqliteInbox(new Database(URL)) as Inbox<unknown>;
  const pool = new pg.Pool({ connectionString: URL, max: 6 }).on('error', () => undefined);
  return postgresInbox(pool, { transactional: true }) as Inbox<unknown>;
}

/** Pays at the bank, which counts calls by their key. */
async function pay(account: string, key: string): Promise<string> {
  const response = await fetch(BANK, { method: 'POST', body: JSON.stringify({ account, key }) });
  return response.text();
}

let calls = 0;
/** Without a key, the bank cannot tell a repeated call from another one. */
const keyOf = (key: string) => (MODE === 'keys' ? key : `${key} ${process.pid} ${++calls}`);

async function handle({ id }: UnknownEvent, context: HandlerContext<unknown>): Promise<void> {
  const { tx, attempt, idempotencyKey } = context;
  // The control: a step that is not stored.
  const step: typeof context.step = MODE === 'unstored' ? async (_, run) => run() : context.step;
  const options = MODE === 'guarded' ? { onInterrupted: 'fail' as const } : {};
  for (const name of ['payout', 'fee']) {
    await step(name, () => pay(`${id} ${name}`, keyOf(idempotencyKey(name))), options);
  }
  if (tx !== undefined) await (tx as Tx).query('INSERT INTO ledger (id) VALUES ($1)', [id]);
  if (attempt === 1) throw new Error('The first attempt fails after its payouts.');
}

workUntilKilled(openInbox(), handle);
