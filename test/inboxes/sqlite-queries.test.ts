/** Every statement of the SQLite inbox finds its rows by an index: none reads the whole table. */
import Database from 'libsql';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { expect, test } from 'vitest';

const db = new Database(':memory:');
const statements: string[] = [];
sqliteInbox({
  exec: (sql) => db.exec(sql),
  prepare(sql) {
    if (sql.includes('stablehooks_events')) statements.push(sql.replaceAll(/\s+/g, ' '));
    return db.prepare(sql);
  },
});

test.each(statements)('%s', (sql) => {
  const values = Array.from(sql.matchAll(/\?/g), () => 1);
  const plan = db.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(...values) as { readonly detail: string }[];
  const steps = plan.map(({ detail }) => detail);
  // Counting reads every entry, yet of an index that holds all it asks for, not of the rows with their JSON.
  const scans = steps.filter((step) => /^SCAN stablehooks_events(?! USING COVERING INDEX)/.test(step));
  expect(scans).toEqual([]);
  // All that is in one state may be nearly everything.
  expect(steps.filter((step) => step.endsWith('(state=?)'))).toEqual([]);
  // Only the few parked events whose types have become known are sorted.
  const sorts = steps.filter((step) => step.includes('TEMP B-TREE'));
  expect(sorts).toHaveLength(sql.includes('json_each') ? 1 : 0);
});
