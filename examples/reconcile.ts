/**
 * A nightly job: polls once, prints the diagnosis and the open gaps, then compares the list, the inbox and the app's own
 * ledger. Exit code: 0 if nothing is missing and the books agree, 1 otherwise.
 *
 * INBOX must be the inbox of the app's receivers. LEDGER is a file with one line `event id,amount` for each booking.
 *
 * `BASE_URL=… TOKEN=… INBOX=events.db LEDGER=ledger.csv SINCE=2026-11-01 npx tsx examples/reconcile.ts`
 */
import { appendFileSync, createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import Database from 'libsql';
import { createReceiver, type UnknownEvent } from 'stablehooks';
import { createPoller, describeGap } from 'stablehooks/catch-up';
import { createClient } from 'stablehooks/client';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { reconcile, sameAmount } from 'stablehooks/reconcile';

const { BASE_URL = '', TOKEN = '', INBOX = 'events.db', LEDGER = 'ledger.csv', SINCE = '' } = process.env;
const { STABLEHOOKS_SECRET = 'unused' } = process.env;

const since = new Date(SINCE);
const client = createClient({ baseUrl: BASE_URL, token: TOKEN, retries: 1 });
const inbox = sqliteInbox(new Database(INBOX));

// Creates the file if it does not exist.
appendFileSync(LEDGER, '');

// The handlers of the app: here, a transfer is one line in the ledger.
const book = ({ id, payload }: UnknownEvent) =>
  appendFileSync(LEDGER, `${id},${String(payload['amount'])}\n`);
const receiver = createReceiver({
  secret: STABLEHOOKS_SECRET,
  inbox,
  handlers: { 'transfer.settled': book, 'redeem.completed': book },
});

const poller = createPoller({ client, receiver, since, logger: { warn() {}, error() {} } });
const report = await poller.pollOnce();
console.log(report.diagnosis);
for (const gap of report.gaps) console.log(`gap: ${describeGap(gap)}`);
for (const { code, message } of report.problems) console.log(`problem: ${code} ${message}`);

interface Booking {
  readonly id: string;
  readonly amount: string;
}

/** Reads the ledger when the first entry is asked for: after the inbox. */
async function* readLedger(): AsyncGenerator<Booking> {
  for await (const line of createInterface({ input: createReadStream(LEDGER) })) {
    const [id = '', amount = ''] = line.split(',');
    yield { id, amount };
  }
}

const result = await reconcile<Booking>({
  client,
  inbox,
  ledger: readLedger(),
  since,
  ledgerTypes: ['transfer.settled', 'redeem.completed'],
  compare: ({ amount }, { payload }) =>
    sameAmount(amount, payload['amount'])
      ? undefined
      : `amount: the ledger has ${amount}, the event ${String(payload['amount'])}`,
  onFinding: (finding) => console.log(`${finding.kind}: ${finding.id}`),
});
console.log(result.diagnosis);
await receiver.close();

const isWhole = report.proven && report.gaps.length === 0 && report.problems.length === 0;
process.exitCode = isWhole && report.failed === 0 && result.agree ? 0 : 1;
