/** What operators do with the Postgres inbox: looking, counting, requeueing, pruning. */
import type { UnknownEvent } from '../core/events.js';
import {
  INBOX_STATES,
  type InboxCount,
  type InboxOperations,
  type InboxRecord,
  type InboxState,
  type Origin,
} from '../core/inbox.js';
import { ask, type PgLike } from './postgres-client.js';
import type { PostgresStatements } from './postgres-statements.js';

/** How many events one statement prunes: few enough that nobody waits for its locks. */
const PRUNE_BATCH = 5_000;

export function postgresOperations(
  pool: PgLike,
  { statements }: { readonly statements: PostgresStatements },
): InboxOperations {
  return {
    async find(id) {
      const [row] = await ask<Row>(pool, { text: statements.find, values: [id] });
      return row && toRecord(row);
    },

    async list({ state, limit, after = null }) {
      return (await ask<Row>(pool, { text: statements.list, values: [state, limit, after] })).map(toRecord);
    },

    async count() {
      const rows = await ask<InboxCount>(pool, { text: statements.count });
      return INBOX_STATES.map(
        (state) => rows.find((row) => row.state === state) ?? { state, count: 0, oldest: null },
      );
    },

    async requeue(id) {
      return (await ask(pool, { text: statements.requeue, values: [id] })).length > 0;
    },

    async prune({ olderThanMs }) {
      let total = 0;
      for (let pruned = PRUNE_BATCH; pruned === PRUNE_BATCH; total += pruned) {
        const values = [olderThanMs, PRUNE_BATCH];
        const [row] = await ask<{ readonly pruned: number }>(pool, { text: statements.prune, values });
        pruned = row?.pruned ?? 0;
      }
      return total;
    },
  };
}

interface Row {
  readonly id: string;
  readonly type: string;
  readonly state: InboxState;
  readonly attempts: number;
  readonly source: Origin;
  readonly last_error: string | null;
  readonly event: string | null;
  readonly received_ms: number;
  readonly updated_ms: number;
  readonly due_ms: number | null;
}

function toRecord(row: Row): InboxRecord {
  return {
    id: row.id,
    type: row.type,
    state: row.state,
    attempts: row.attempts,
    origin: row.source,
    receivedAt: row.received_ms,
    updatedAt: row.updated_ms,
    dueAt: row.due_ms,
    lastError: row.last_error,
    event: row.event === null ? null : (JSON.parse(row.event) as UnknownEvent),
  };
}
