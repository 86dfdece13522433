import Database from 'libsql';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { exampleEvent } from 'stablehooks/testing';
import { expect, test } from 'vitest';

const LEASE = { leaseMs: 60_000, origin: 'push' } as const;

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
  // Only the first due events of each type are sorted, and the due events of one key, which the same step takes or makes
  // wait.
  const sorts = steps.filter((step) => step.includes('TEMP B-TREE'));
  expect(sorts).toHaveLength(/json_each.*ORDER BY/.test(sql) ? 1 : 0);
  // Many events can be due or open: only those of the type, and of the key, are read.
  const byType = steps.filter((step) => step.includes('stablehooks_due (type=? AND <expr><?)'));
  expect(byType).toHaveLength(sql.includes('types.value') ? 1 : 0);
  const searches = /WHERE key = /.test(sql) ? 1 : 0;
  const byKey = steps.filter((step) => /USING (COVERING )?INDEX stablehooks_key_\w+ \(key=\?/.test(step));
  expect(byKey).toHaveLength(searches);
});

test('an index holds only the events that are looked up by it: most events are done, and cost no entry', async () => {
  const file = new Database(':memory:');
  const inbox = sqliteInbox(file);
  const claim = async (id: string, key?: string) => {
    const claimed = await inbox.claim({ ...exampleEvent('transfer.settled'), id }, { ...LEASE, key });
    if (claimed.state !== 'claimed') throw new Error(claimed.state);
    return claimed.lease;
  };
  const parked = (id: string) => ({ ...exampleEvent('transfer.settled'), id });
  for (const key of [undefined, 'wallet']) {
    for (const id of ['pruned_1', 'pruned_2', 'pruned_3'])
      await inbox.complete(await claim(`${id} ${key}`, key));
    // The second time it prunes the two events that were done after the first time, too.
    await inbox.prune({ olderThanMs: 0 });
    for (const id of ['done_1', 'done_2']) await inbox.complete(await claim(`${id} ${key}`, key));
    await inbox.fail(await claim(`dead ${key}`, key), { retryAfterMs: null, error: 'no' });
    await inbox.fail(await claim(`failed ${key}`, key), { retryAfterMs: 60_000, error: 'no' });
    await inbox.record([parked(`parked ${key}`)], { dueInMs: null, origin: 'pull', keys: [key] });
    await inbox.record([parked(`due ${key}`)], { dueInMs: 0, origin: 'pull', keys: [key] });
    await claim(`leased ${key}`, key);
  }
  await inbox.claim(parked('waiting'), { ...LEASE, key: 'wallet' });

  file.exec('ANALYZE');
  const rows = file.prepare("SELECT idx, stat FROM sqlite_stat1 WHERE tbl = 'stablehooks_events'").all();
  const entries = (rows as { idx: string; stat: string }[]).map(({ idx, stat }) => [idx, parseInt(stat, 10)]);
  expect(Object.fromEntries(entries)).toMatchObject({
    stablehooks_states: 21,
    stablehooks_due: 9,
    stablehooks_written: 7,
    stablehooks_prunable: 2,
    stablehooks_pruned: 8,
    stablehooks_key_leased: 1,
    stablehooks_key_waiting: 1,
  });
});
