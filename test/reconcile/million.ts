/**
 * Reconciles a million events of an SQLite file with a million ledger entries, in a process of its own, whose peak of
 * memory is then this work's alone.
 *
 * `million.ts <file> <count>`; prints `{ peakBytes, seconds, result }` as JSON.
 */
import { once } from 'node:events';
import { createReadStream, createWriteStream, readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { finished } from 'node:stream/promises';
import Database from 'libsql';
import { EVENT_TYPES, type UnknownEvent } from 'stablehooks';
import { writePollState } from 'stablehooks/catch-up';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { reconcile, sameAmount } from 'stablehooks/reconcile';

const NOW = Date.parse('2026-03-01T12:00:00Z');
const [step = '', folder = '', size = '0'] = process.argv.slice(2);
const count = Number(size);
const since = new Date(NOW - 30 * 86_400_000);

function makeEvent(index: number): UnknownEvent {
  return {
    id: `evt_${String(index).padStart(8, '0')}-0d0a-4f3e-9a53-6f0f5d6a8c11`,
    type: EVENT_TYPES[index % EVENT_TYPES.length] ?? 'transfer.settled',
    created_at: new Date(since.getTime() + index * 1_000).toISOString(),
    payload: { amount: `${index}.50`, currency: 'USDC', wallet_id: 'wal_01JZ8Q5F1D', chain: 'solana' },
  };
}

/** Every thousandth event has an error. */
const isMissing = (index: number) => index % 1_000 === 1;
const isDoubled = (index: number) => index % 1_000 === 2;
const isMismatched = (index: number) => index % 1_000 === 3;

async function prepare(): Promise<void> {
  const db = new Database(`${folder}/events.db`);
  db.pragma('synchronous = OFF');
  const inbox = sqliteInbox(db);
  for (let from = 0; from < count; from += 1_000) {
    const events = Array.from({ length: Math.min(1_000, count - from) }, (_, index) =>
      makeEvent(from + index),
    );
    await inbox.record(events, { dueInMs: 0, origin: 'push' });
  }
  // As a million handlers would leave it, in one statement.
  db.exec("UPDATE stablehooks_events SET state = 'done', due_at = NULL");
  const state = { since: since.getTime(), watermark: NOW, gaps: [], limit: 50, oldest: null };
  await writePollState(inbox, state);
  db.close();
  const file = createWriteStream(`${folder}/ledger.txt`);
  for (let index = 0; index < count; index += 1) {
    const { id } = makeEvent(index);
    const line = `${id} ${isMismatched(index) ? 0 : index}.5\n`;
    const written = file.write(isMissing(index) ? '' : isDoubled(index) ? line + line : line);
    if (!written) await once(file, 'drain');
  }
  file.end();
  await finished(file);
}

async function* readLedger() {
  for await (const line of createInterface(createReadStream(`${folder}/ledger.txt`))) {
    const [id = '', amount = ''] = line.split(' ');
    yield { id, amount };
  }
}

/** The most memory that this program had. `maxRSS` of Linux begins with what the process had that started it. */
function readPeak(): number {
  const kilobytes = /^VmHWM:\s*(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1];
  if (kilobytes === undefined)
    throw new Error('The peak of the memory is read from /proc, which only Linux has.');
  return Number(kilobytes) * 1_024;
}

async function measure(): Promise<void> {
  const client = {
    events: {
      async listWithProblems({
        type,
        limit,
      }: {
        readonly type?: string | undefined;
        readonly limit: number;
      }) {
        const events: UnknownEvent[] = [];
        for (let index = count - 1; index >= 0 && events.length < limit; index -= 1) {
          const event = makeEvent(index);
          if (type === undefined || event.type === type) events.push(event);
        }
        return { events, problems: [], size: events.length, servedAt: NOW };
      },
    },
  };
  const startedAt = performance.now();
  const result = await reconcile({
    client,
    inbox: sqliteInbox(new Database(`${folder}/events.db`)),
    ledger: readLedger(),
    since,
    compare: ({ amount }, event) =>
      sameAmount(amount, event.payload['amount']) ? undefined : 'The amounts differ.',
    daily: true,
    amounts: { event: ({ payload }) => String(payload['amount']), entry: ({ amount }) => amount },
    runtime: { now: () => NOW },
  });
  const peakBytes = readPeak();
  const seconds = (performance.now() - startedAt) / 1_000;
  console.log(JSON.stringify({ peakBytes, seconds, result }));
}

await (step === 'prepare' ? prepare() : measure());
