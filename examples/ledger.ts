import { createdAtMs, type EventType, PermanentError, type WebhookEvent } from 'stablehooks';

export const TABLES = [
  'CREATE TABLE redeems (id TEXT PRIMARY KEY, created_ms BIGINT NOT NULL, event_id TEXT NOT NULL)',
  'CREATE TABLE entries (event_id TEXT NOT NULL, redeem_id TEXT NOT NULL, account TEXT NOT NULL, cents BIGINT NOT NULL)',
];

/** Keeps the newest event of a redeem. Returns no row for an older event. */
const FORWARD = `INSERT INTO redeems (id, created_ms, event_id) VALUES ($1, $2, $3)
ON CONFLICT (id) DO UPDATE SET created_ms = excluded.created_ms, event_id = excluded.event_id
  WHERE (redeems.created_ms, redeems.event_id) < (excluded.created_ms, excluded.event_id)
RETURNING id`;

/** Reverses everything that is booked for the redeem. Entries are never changed or deleted. */
const REVERSE = `INSERT INTO entries (event_id, redeem_id, account, cents)
SELECT $1, redeem_id, account, -sum(cents) FROM entries WHERE redeem_id = $2
GROUP BY redeem_id, account HAVING sum(cents) <> 0 RETURNING account`;

const BOOK =
  'INSERT INTO entries (event_id, redeem_id, account, cents) VALUES ($1, $2, $3, $4) RETURNING account';

type Redeem = WebhookEvent<Extract<EventType, `redeem.${string}`>>;
type Value = string | number;

/**
 * The statements that book a redeem: reversals and new entries, with equal debits and credits. Each statement receives the
 * rows of the previous one.
 */
export function* bookRedeem({
  id,
  type,
  payload,
  ...event
}: Redeem): Generator<[string, Value[]], void, readonly unknown[]> {
  const { redeem_id: redeem, account, amount } = payload;
  const [, units, hundredths] = /^(\d{1,12})\.(\d\d)$/.exec(String(amount)) ?? [];
  if (typeof redeem !== 'string' || typeof account !== 'string' || units === undefined) {
    throw new PermanentError('the payload is not a redeem payload');
  }
  const newer = yield [FORWARD, [redeem, createdAtMs(event), id]];
  if (newer.length === 0) return;
  yield [REVERSE, [id, redeem]];
  // A failed redeem has no entries left except the reversed ones.
  if (type === 'redeem.failed') return;
  const cents = Number(`${units}${hundredths}`);
  yield [BOOK, [id, redeem, `customer ${account}`, -cents]];
  yield [BOOK, [id, redeem, 'bank', cents]];
}

/** In a transaction of SQLite: `(event, { tx }) => bookInSqlite(tx, event)`. */
export function bookInSqlite(
  tx: { prepare(sql: string): { all(...values: unknown[]): unknown[] } },
  event: Redeem,
): void {
  const booking = bookRedeem(event);
  for (let next = booking.next([]); !next.done; ) {
    const [sql, values] = next.value;
    next = booking.next(tx.prepare(sql.replaceAll(/\$\d/g, '?')).all(...values));
  }
}

/** In a transaction of Postgres: `(event, { tx }) => bookInPostgres(tx, event)`. */
export async function bookInPostgres(
  tx: { query(sql: string, values: unknown[]): Promise<{ readonly rows: readonly unknown[] }> },
  event: Redeem,
): Promise<void> {
  const booking = bookRedeem(event);
  for (let next = booking.next([]); !next.done; ) {
    const [sql, values] = next.value;
    next = booking.next((await tx.query(sql, values)).rows);
  }
}
