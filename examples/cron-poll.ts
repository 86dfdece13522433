/**
 * A cron job: one poll, a readable report, and an exit code: 0 proven or unconfirmed, 1 an unproven gap, 2 a
 * failure.
 *
 * INBOX must be the inbox of the app's receivers: another one does not know what push has handled.
 *
 * `BASE_URL=… TOKEN=… INBOX=events.db npx tsx examples/cron-poll.ts`
 */
import Database from 'libsql';
import { createReceiver } from 'stablehooks';
import { createPoller } from 'stablehooks/catch-up';
import { createClient } from 'stablehooks/client';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';

const { BASE_URL = '', TOKEN = '', INBOX = 'events.db', STABLEHOOKS_SECRET = 'unused', SINCE } = process.env;

const book = (event: { readonly id: string; readonly type: string }) =>
  console.log('booked', event.type, event.id);
const receiver = createReceiver({
  secret: STABLEHOOKS_SECRET,
  inbox: sqliteInbox(new Database(INBOX)),
  handlers: {
    'accept.confirmed': book,
    'transfer.settled': book,
    'transfer.failed': book,
    'redeem.completed': book,
    'redeem.failed': book,
  },
});

const poller = createPoller({
  client: createClient({ baseUrl: BASE_URL, token: TOKEN, retries: 1 }),
  receiver,
  ...(SINCE === undefined ? {} : { since: new Date(SINCE) }),
});
const report = await poller.pollOnce();
await receiver.close();

console.log(
  `listed ${report.fetched}, older than SINCE ${report.skipped}, new ${report.new}, recovered ${report.recovered}, failed ${report.failed}`,
);
console.log(`${report.requests} requests in ${report.durationMs} ms`);
for (const { code, message, id } of report.problems) console.log(`problem: ${code} ${id ?? ''} ${message}`);
// The poller has printed each gap.
const isCalm = report.proven || report.unconfirmed;
if (report.proven) console.log(`proven up to ${report.watermark}`);
else console.log(`${isCalm ? 'unconfirmed' : 'not proven'}: ${report.diagnosis}`);

const broken = report.problems.length > 0 || report.failed > 0;
process.exitCode = broken ? 2 : isCalm ? 0 : 1;
