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
  // Only the few steps of one event are sorted, and the first due events of each type, and the due events of one key, which the same step takes or makes
  // wait.
  const sorts = steps.filter((step) => step.includes('TEMP B-TREE'));
  expect(sorts).toHaveLength(/json_each.*ORDER BY|stablehooks_steps.*ORDER BY/.test(sql) ? 1 : 0);
  // Many events can be due or open: only those of the type, and of the key, are read.
  const byType = steps.filter((step) => step.includes('stablehooks_events_due (type=? AND <expr><?)'));
  expect(byType).toHaveLength(sql.includes('types.value') ? 1 : 0);
  const searches = /WHERE key = /.test(sql) ? 1 : 0;
  const byKey = steps.filter((step) =>
    /USING (COVERING )?INDEX stablehooks_events_key_\w+ \(key=\?/.test(step),
  );
  expect(byKey).toHaveLength(searches);
});
