import { expect, test } from 'vitest';
import { createPages, PAGE_ROWS } from '../../page/src/views/inbox-pages.js';
import type { InboxRow } from '../../src/inspector/api.js';

/** An event of a state. All of them have come in the same ms. */
function row(id: string, attempts = 1): InboxRow {
  return {
    ...{
      id,
      attempts,
      type: 'transfer.settled',
      state: 'failed',
      origin: 'pull',
      key: null,
      lastError: null,
    },
    ...{ receivedAt: 1_000, updatedAt: 1_000, dueAt: null },
  };
}

/** A list of rows whose order only their server knows, as Postgres orders by µs. */
function listOf(first: readonly InboxRow[]) {
  let rows = first;
  const pages = createPages({
    order: 'newest',
    async load(after) {
      const from = after === undefined ? 0 : rows.findIndex(({ id }) => id === after) + 1;
      const page = rows.slice(from, from + PAGE_ROWS);
      return { rows: page, next: page.length < PAGE_ROWS ? null : (page.at(-1)?.id ?? null) };
    },
    onChange: () => undefined,
  });
  const idsOf = () =>
    Array.from({ length: pages.count }, (_, index) => {
      const found = pages.at(index);
      return typeof found === 'object' ? `${found.id}${found.left ? ' left' : ''}` : `${found}`;
    });
  return {
    pages,
    idsOf,
    async change(to: readonly InboxRow[]) {
      rows = to;
      pages.refresh();
      const [last] = to.slice(-1);
      // Every row is tried once more with each change, which shows that it was read again.
      await expect
        .poll(() => JSON.stringify(pages.at(pages.count - 1)))
        .toContain(`"attempts":${last?.attempts}`);
    },
  };
}

/** Ids in an order that is not theirs. */
const IDS = Array.from({ length: PAGE_ROWS + 20 }, (_, index) => `evt_${(index * 7_919) % 1_000}`);

test('events of one ms on the border of two pages are not counted as new', async () => {
  const list = listOf(IDS.map((id) => row(id)));
  list.pages.show(0, IDS.length - 1);
  await expect.poll(() => list.pages.count).toBe(IDS.length);
  await list.change(IDS.map((id) => row(id, 2)));
  expect(list.pages.added).toBe(0);
  expect(list.idsOf()).toEqual(IDS);
});

test('events of one ms that have left the state are marked, and the others stay', async () => {
  const list = listOf(IDS.map((id) => row(id)));
  list.pages.show(0, IDS.length - 1);
  await expect.poll(() => list.pages.count).toBe(IDS.length);
  const gone = new Set([IDS[3], IDS[PAGE_ROWS - 5], IDS[PAGE_ROWS + 3]]);
  await list.change(IDS.filter((id) => !gone.has(id)).map((id) => row(id, 2)));
  expect(list.pages.added).toBe(0);
  expect(list.idsOf()).toEqual(IDS.map((id) => (gone.has(id) ? `${id} left` : id)));
});

test('new events of the same ms are counted, and no row is taken for one that has left', async () => {
  const list = listOf(IDS.map((id) => row(id)));
  list.pages.show(0, IDS.length - 1);
  await expect.poll(() => list.pages.count).toBe(IDS.length);
  const later = ['evt_new_1', 'evt_new_2'].map((id) => row(id, 2));
  await list.change([...later, ...IDS.map((id) => row(id, 2))]);
  expect(list.pages.added).toBe(2);
  expect(list.idsOf()).toEqual(IDS);
});
