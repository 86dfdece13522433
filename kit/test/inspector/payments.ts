/** The inbox of a payment app after three days: most events are done, some need a person. For pictures and measurements. */
import type Database from 'libsql';
import { createReceiver, type EventType } from 'stablehooks';
import { writePollState } from 'stablehooks/catch-up';
import { toFetchHandler } from 'stablehooks/fetch';
import { type SqliteInbox, sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { exampleEvent, signedRequest } from 'stablehooks/testing';
import { SECRET } from '../command.js';
import { SILENT } from '../service.js';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Of one hundred events. */
const TYPES: readonly (readonly [EventType, number])[] = [
  ['transfer.settled', 58],
  ['accept.confirmed', 80],
  ['redeem.completed', 92],
  ['transfer.failed', 97],
  ['redeem.failed', 100],
];

/** What the name of a movement is called in its payload. */
const MOVEMENTS = { accept: 'accept_id', transfer: 'transfer_id', redeem: 'redeem_id' } as const;

/** A number from 0 up to `below`, always the same for an index. */
const pick = (index: number, below: number) => (Math.imul(index + 7, 0x85ebca6b) >>> 8) % below;

/** A name such as those of the service, always the same for an index. */
function nameOf(index: number): string {
  const letters = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
  let value = BigInt(Math.imul(index + 1, 0x9e3779b1) >>> 0) * 1_000_003n + BigInt(index);
  let name = '';
  while (name.length < 8) {
    name = letters[Number(value % 32n)] + name;
    value /= 32n;
  }
  return `01KB7${name}`;
}

const CLOSED = (index: number) => `ERR_HANDLER_FAILED: account acct_${4700 + (index % 9)} is closed`;
const REFUSED = 'ERR_HANDLER_FAILED: connect ECONNREFUSED 10.0.3.17:5432';
const INVALID = 'ERR_PAYLOAD_INVALID: payload.amount must be a decimal string';

/** The id of a dead event of the payments, and the name of its movement. */
export const DEAD = { id: `evt_${nameOf(40)}`, movement: `transfer_${nameOf(40)}` };

/** Adds events of the last three days, and what polls have proven of them. */
export async function fillPayments(db: Database.Database, count: number): Promise<SqliteInbox> {
  const inbox = sqliteInbox(db);
  const now = Date.now();
  const add = db.prepare(
    `INSERT INTO stablehooks_events (id, type, source, event, received_at, updated_at, due_at, state, attempts, last_error, history)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  db.exec('BEGIN');
  for (let index = 0; index < count; index += 1) {
    const at = Math.round(now - 4_000 - (index * (3 * DAY - 2 * HOUR)) / count);
    const share = index === 40 ? 0 : index === 47 ? 95 : pick(index, 100);
    const [type] = TYPES.find(([, until]) => share < until) ?? ['transfer.settled'];
    const id = `evt_${nameOf(index)}`;
    const kind = type.slice(0, type.indexOf('.')) as keyof typeof MOVEMENTS;
    // The dead event is the second of its movement.
    const movement = `${kind}_${nameOf(index === 47 ? 40 : index)}`;
    const example = exampleEvent(type, { id, created_at: new Date(at - 1_500).toISOString() });
    const { created_at } = example;
    const payload = {
      ...Object.fromEntries(
        Object.entries(example.payload).map(([name, value]) => [
          name,
          name.endsWith('_at') ? created_at : value,
        ]),
      ),
      ...{ [MOVEMENTS[kind]]: movement, amount: (pick(index, 90_000) / 100 + 12).toFixed(2) },
    };
    const error = errorOf(index, now - at);
    const state = error === undefined ? 'done' : error === REFUSED ? 'failed' : 'dead';
    const attempts = state === 'done' ? 1 : state === 'failed' ? 2 + (index % 3) : error === INVALID ? 1 : 8;
    const history = Array.from({ length: attempts }, (_, attempt) => {
      const startedAt = at + attempt * (attempt + 1) * 45_000;
      const isLast = attempt === attempts - 1;
      const result = isLast ? state : 'failed';
      return {
        attempt: attempt + 1,
        startedAt,
        endedAt: startedAt + 18 + pick(index, 300),
        result,
        error: error ?? null,
      };
    });
    const last = Math.min(now - 1_000, history.at(-1)?.endedAt ?? at);
    add.run(
      ...[
        id,
        example.type,
        index % 40 === 3 ? 'pull' : 'push',
        JSON.stringify({ ...example, payload }),
        at,
        last,
      ],
      ...[
        state === 'failed' ? now + 2 * MINUTE : null,
        state,
        attempts,
        error ?? null,
        JSON.stringify(history),
      ],
    );
  }
  db.exec('COMMIT');
  const gap = (hoursAgo: number, lengthMs: number, acknowledged = false) => ({
    from: now - hoursAgo * HOUR,
    until: Object.fromEntries(
      (['transfer.settled', 'transfer.failed'] as const).map((type) => [
        type,
        now - hoursAgo * HOUR + lengthMs,
      ]),
    ),
    reason: 'not-reached' as const,
    openedAt: now - hoursAgo * HOUR + lengthMs,
    acknowledged: acknowledged ? { by: 'Ada', reason: 'The books agree.', at: now - HOUR } : null,
  });
  await writePollState(inbox, {
    ...{ since: now - 3 * DAY, watermark: now - 4 * MINUTE, limit: 500, oldest: null },
    ...{ gaps: [gap(48, 70 * MINUTE, true), gap(9, 55 * MINUTE)], lastAttempt: { at: now - 2 * MINUTE } },
  });
  await refuse(inbox);
  return inbox;

  function errorOf(index: number, ageMs: number): string | undefined {
    if (index === 40 || (ageMs > 20 * HOUR && ageMs < 40 * HOUR && index % 17 === 6)) return CLOSED(index);
    if (ageMs < 20 * MINUTE && index % 2 === 1) return REFUSED;
    return index % 301 === 300 ? INVALID : undefined;
  }
}

/** Seven deliveries with the secret of another environment, which the receiver of the inbox refuses and counts. */
async function refuse(inbox: SqliteInbox): Promise<void> {
  const receiver = createReceiver({ secret: SECRET, inbox, logger: SILENT, handlers: {} });
  const post = toFetchHandler(receiver);
  for (let index = 0; index < 3; index += 1) {
    const { url, ...init } = await signedRequest(exampleEvent('transfer.settled'), {
      secret: 'whsec-of-staging',
    });
    await post(new Request(url, init));
  }
  await receiver.close();
}
