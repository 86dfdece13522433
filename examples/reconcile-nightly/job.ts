/**
 * Compares the service's list, the inbox and the ledger for the time since they last agreed. The exit code is 0 only if
 * every event is proven to be in the inbox and all three agree.
 */
import { setTimeout } from 'node:timers/promises';
import Database from 'libsql';
import { createReceiver } from 'stablehooks';
import { createPoller, describeGap } from 'stablehooks/catch-up';
import { createClient } from 'stablehooks/client';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { reconcile, sameAmount } from 'stablehooks/reconcile';
import { handlers } from './handlers.js';

const { STABLEHOOKS_SECRET = '', STABLEHOOKS_BASE_URL = '', STABLEHOOKS_TOKEN = '' } = process.env;
const { STABLEHOOKS_INBOX = 'app.db', STABLEHOOKS_LAG_MS = '300000' } = process.env;
const DAY_MS = 86_400_000;
/** How late the service may list an event. */
const lagMs = Number(STABLEHOOKS_LAG_MS);

const db = new Database(STABLEHOOKS_INBOX);
// Makes SQLite wait for the app, which may be running.
const inbox = sqliteInbox(db, { transactional: true });
db.exec('CREATE TABLE IF NOT EXISTS ledger (event_id TEXT PRIMARY KEY, type TEXT, amount TEXT NOT NULL)');
const client = createClient({ baseUrl: STABLEHOOKS_BASE_URL, token: STABLEHOOKS_TOKEN });

interface Entry {
  readonly id: string;
  readonly amount: string;
}

/** Runs the query at the first entry, after the inbox was read, because the app may be running. */
function* readLedger() {
  yield* db.prepare('SELECT event_id AS id, amount FROM ledger').iterate() as Iterable<Entry>;
}

/** A day before everything last agreed, so that late events and a night without a run are compared as well. */
async function readSince() {
  const agreedUntil = await inbox.readNote('reconcile-nightly');
  return new Date((agreedUntil === null ? Date.now() : Date.parse(agreedUntil)) - DAY_MS);
}

const receiver = createReceiver({ secret: STABLEHOOKS_SECRET, inbox, handlers });
const since = await readSince();
const poller = createPoller({ client, receiver, since, lagMs });
const poll = () => poller.pollOnce({ signal: AbortSignal.timeout(30_000) });
let report = await poll();
while (report.problems.some(({ code }) => code === 'ERR_POLL_BUSY')) {
  await setTimeout(5_000); // the app's poller is polling
  report = await poll();
}
console.log(report.diagnosis);
for (const gap of report.gaps) console.log(`gap: ${describeGap(gap)}`);
for (const { code, message } of report.problems) console.log(`problem: ${code} ${message}`);

const result = await reconcile<Entry>({
  ...{ client, inbox, ledger: readLedger(), since, lagMs },
  ledgerTypes: ['accept.confirmed', 'transfer.settled', 'redeem.completed'],
  compare: ({ amount }, { payload }) =>
    sameAmount(amount, payload['amount']) ? undefined : 'the amounts differ',
  onFinding: ({ kind, id }) => console.log(`${kind}: ${id}`),
});
console.log(result.diagnosis);
if (result.agree) await inbox.writeNote('reconcile-nightly', result.until);
await receiver.close();
db.close();
const isProven = report.proven && report.gaps.length === 0 && report.problems.length === 0;
process.exitCode = isProven && report.failed === 0 && result.agree ? 0 : 1;
