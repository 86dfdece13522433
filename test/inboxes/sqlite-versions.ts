/** Files as releases wrote them. */
import type { UnknownEvent } from 'stablehooks';

export const event = (id: string): UnknownEvent => ({
  id,
  type: 'transfer.settled',
  created_at: '2026-01-02T03:04:05Z',
  payload: { amount: '10.50' },
});

/** The tables as the first release made them, with an event in each state; one of the leases has lapsed. */
export const VERSION_1 = `
  CREATE TABLE stablehooks_schema (one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER NOT NULL) STRICT;
  INSERT INTO stablehooks_schema VALUES (1, 1);
  CREATE TABLE stablehooks_events (
    id TEXT NOT NULL PRIMARY KEY,
    type TEXT NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    source TEXT NOT NULL,
    received_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    due_at INTEGER,
    token TEXT,
    last_error TEXT,
    event TEXT
  ) STRICT;
  CREATE INDEX stablehooks_due ON stablehooks_events (due_at) WHERE due_at IS NOT NULL;
  CREATE INDEX stablehooks_parked ON stablehooks_events (type) WHERE state = 'parked';
  CREATE INDEX stablehooks_prunable ON stablehooks_events (updated_at) WHERE state = 'done' AND event IS NOT NULL;
  CREATE INDEX stablehooks_states ON stablehooks_events (state, received_at, id, updated_at);
  CREATE TABLE stablehooks_poll (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    holder TEXT NOT NULL,
    lease_until INTEGER NOT NULL,
    horizon INTEGER,
    largest INTEGER NOT NULL
  ) STRICT;
  INSERT INTO stablehooks_poll VALUES (1, 'a', 0, 9, 70);
  ${[
    ['received', 'received', 0, 9e15, null, null],
    ['leased', 'leased', 1, 9e15, 'token', null],
    ['lapsed', 'leased', 2, 200, 'token', null],
    ['failed', 'failed', 1, 9e15, null, '"no"'],
    ['done', 'done', 1, null, null, null],
    ['dead', 'dead', 12, null, null, '"no"'],
    ['parked', 'parked', 0, null, null, null],
  ]
    .map(([id, state, attempts, dueAt, token, error]) => {
      const times = [100, 100, dueAt];
      const values = [
        id,
        'transfer.settled',
        state,
        attempts,
        'push',
        ...times,
        token,
        error,
        JSON.stringify(event(String(id))),
      ];
      const literals = values.map((value) => (typeof value === 'string' ? `'${value}'` : String(value)));
      return `INSERT INTO stablehooks_events VALUES (${literals.join(', ')});`;
    })
    .join('\n  ')}`;

/** The tables as the release before gaps made them; `a` has the lease to poll. */
export const VERSION_3 = `${VERSION_1}
  ALTER TABLE stablehooks_events ADD COLUMN history TEXT;
  ALTER TABLE stablehooks_poll ADD COLUMN since INTEGER;
  ALTER TABLE stablehooks_poll ADD COLUMN renewed_at INTEGER;
  CREATE INDEX stablehooks_written ON stablehooks_events (updated_at) WHERE due_at IS NOT NULL;
  UPDATE stablehooks_schema SET version = 3;
  UPDATE stablehooks_poll SET lease_until = 1767000001000, renewed_at = 1767000000000, since = 4`;

/** The tables as the release before ordering keys made them. */
export const VERSION_5 = `${VERSION_3};
  ALTER TABLE stablehooks_poll RENAME COLUMN horizon TO watermark;
  ALTER TABLE stablehooks_poll DROP COLUMN largest;
  ALTER TABLE stablehooks_poll ADD COLUMN gaps TEXT NOT NULL DEFAULT '[]';
  ALTER TABLE stablehooks_poll ADD COLUMN list_limit INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE stablehooks_poll ADD COLUMN oldest TEXT;
  CREATE INDEX stablehooks_pruned ON stablehooks_events (updated_at) WHERE state = 'done' AND event IS NULL;
  UPDATE stablehooks_schema SET version = 5`;

/** The tables as the release before trace contexts made them. */
export const VERSION_6 = `${VERSION_5};
  ALTER TABLE stablehooks_events ADD COLUMN key TEXT;
  ALTER TABLE stablehooks_events ADD COLUMN created_at INTEGER;
  ALTER TABLE stablehooks_events ADD COLUMN waiting INTEGER NOT NULL DEFAULT 0;
  CREATE UNIQUE INDEX stablehooks_key_leased ON stablehooks_events (key) WHERE key IS NOT NULL AND state = 'leased';
  CREATE INDEX stablehooks_key_waiting ON stablehooks_events (key, created_at) WHERE state = 'received' AND waiting = 1;
  CREATE INDEX stablehooks_key_due ON stablehooks_events (key, due_at)
    WHERE key IS NOT NULL AND state IN ('received', 'failed');
  CREATE INDEX stablehooks_key_parked ON stablehooks_events (key) WHERE key IS NOT NULL AND state = 'parked';
  UPDATE stablehooks_schema SET version = 6`;
