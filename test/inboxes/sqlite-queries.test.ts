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

test.each(statements)('the SQLite statement finds its rows by an index: %s', (sql) => {
  const values = Array.from(sql.matchAll(/\?/g), () => 1);
  const plan = db.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(...values) as { readonly detail: string }[];
  const steps = plan.map(({ detail }) => detail);
  // `count` reads every entry of an index that contains all its columns, not the rows with their JSON.
  const scans = steps.filter((step) => /^SCAN stablehooks_events(?! USING COVERING INDEX)/.test(step));
  expect(scans).toEqual([]);
  // One state can hold nearly all rows. `count` reads the entries of the others, which hold few.
  expect(steps.filter((step) => /(?<!COVERING INDEX \w+ )\(state=\?\)$/.test(step))).toEqual([]);
  // Only the few parked events of types that have become known are sorted.
  const sorts = steps.filter((step) => step.includes('TEMP B-TREE'));
  expect(sorts).toHaveLength(sql.includes('json_each') ? 1 : 0);
});
