import type { UnknownEvent } from 'stablehooks';
import { type Finding, reconcile, sameAmount } from 'stablehooks/reconcile';
import { expect } from 'vitest';
import { type Entry, LAG_MS, makeBooks, NOW, SINCE } from './random-books.js';

function compare(entry: Entry, event: UnknownEvent): string | undefined {
  return sameAmount(entry.amount, event.payload['amount']) ? undefined : 'the amounts differ';
}

/** Reconciles the books of a seed, and checks that exactly what was planted is found. Returns what was proven. */
export async function checkBooks(seed: number, { dryRun }: { readonly dryRun: boolean }) {
  const books = await makeBooks(seed);
  const { client, inbox, ledger } = books;
  const findings: Finding[] = [];
  const result = await reconcile({
    client,
    inbox,
    ledger,
    since: SINCE,
    compare,
    dryRun,
    lagMs: LAG_MS,
    onFinding: (finding) => void findings.push(finding),
    // Reconcile sets timers only to give way between two pages.
    runtime: { now: () => NOW, setTimeout: (callback) => setImmediate(callback) },
  });
  const found = new Set(findings.map(({ kind, id }) => `${kind} ${id}`));
  const planted = [...books.planted];
  if (books.isCut) {
    // A list that is cut shows only some events and proves only some times.
    const isPartial = (line: string) => /^(unseen|unlisted|conflicting|extra) /.test(line);
    const shown = planted.filter((line) => !isPartial(line) || found.has(line));
    // An unseen event that is not shown, but has an entry, is an entry without an event.
    const hidden = [...books.unseenWithEntry]
      .filter((id) => !found.has(`unseen ${id}`))
      .map((id) => `extra ${id}`);
    const extra = planted.filter((line) => line.startsWith('extra '));
    expect([...found].sort(), `seed ${seed}`).toEqual([...new Set([...shown, ...hidden, ...extra])].sort());
  } else {
    expect([...found].sort(), `seed ${seed}`).toEqual(planted.sort());
    expect(result.complete, `seed ${seed}`).toBe(true);
  }
  const lost = planted.filter((line) => line.startsWith('unseen ') && !found.has(line));
  if (result.complete) expect(lost, `seed ${seed}`).toEqual([]);
  expect(result.agree, `seed ${seed}`).toBe(result.complete && found.size === 0);
  expect(result.totals.unjudged).toBe(0);
  for (const [kind, { count, ids }] of Object.entries(result.findings)) {
    const some = findings.filter((finding) => finding.kind === kind);
    expect({ kind, count, ids }).toEqual({ kind, count: some.length, ids: some.map(({ id }) => id) });
  }
  for (const { kind, id } of findings) {
    if (kind !== 'unseen') continue;
    const recorded = !dryRun && !books.unseenWithEntry.has(id);
    expect((await inbox.find(id))?.state, `seed ${seed}`).toBe(recorded ? 'received' : undefined);
  }
  return { complete: result.complete, found: found.size };
}
