import { fromTypeOrm } from 'stablehooks/inboxes/postgres';
import { DataSource, EntitySchema } from 'typeorm';
import { layer, type PoolOptions } from './data-layer.js';

const Entry = new EntitySchema<{ entry: number; id: string }>({
  name: 'ledger',
  columns: {
    entry: { type: Number, primary: true, generated: 'increment' },
    id: { type: String },
  },
});

export async function openTypeOrm({ url, connections, connectTimeoutMs = 10_000 }: PoolOptions) {
  const source = new DataSource({
    type: 'postgres',
    url,
    poolSize: connections,
    connectTimeoutMS: connectTimeoutMs,
    entities: [Entry],
  });
  await source.initialize();
  return layer({
    pool: fromTypeOrm(source),
    effect: (tx, id) => tx.insert(Entry, { id }),
    nested: (tx, work) => tx.transaction((inner) => work(inner)),
    raw: (tx, text) => tx.query(text),
    close: () => source.destroy(),
  });
}
