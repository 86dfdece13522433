import postgres from 'postgres';
import { fromPostgresJs } from 'stablehooks/inboxes/postgres';
import { layer, type PoolOptions } from './data-layer.js';

export function openPostgresJs({ url, connections }: PoolOptions) {
  const db = postgres(url, { max: connections, onnotice: () => undefined });
  return layer({
    pool: fromPostgresJs(db),
    effect: (tx, id) => tx`INSERT INTO ledger (id) VALUES (${id})`,
    nested: (tx, work) => tx.savepoint((inner) => work(inner)),
    raw: (tx, text) => tx.unsafe(text),
    close: () => db.end({ timeout: 0 }),
  });
}
