import { writeFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { openLedger } from '../../src/io/ledger.js';
import { makeFolder } from '../command.js';

/** The rows of a ledger with this content, by its columns `event_id` and `amount`. */
async function readLedger(text: string): Promise<readonly object[]> {
  await using folder = await makeFolder();
  await writeFile(folder.at('ledger.csv'), text);
  const columns = ['event_id', 'amount'];
  const ledger = await openLedger(folder.at('ledger.csv'), { columns, delimiter: ',' });
  const rows: object[] = [];
  for await (const row of ledger.rows) rows.push(row);
  return rows;
}

test('quoted values can contain delimiters, quotes and newlines, and columns can be in any order', async () => {
  expect(await readLedger('memo,amount,event_id\n"a, ""b""\nc",+1.500,"evt_1"\n')).toMatchObject([
    { values: ['evt_1', '+1.500'] },
  ]);
});

test('an id can have 100,000 characters', async () => {
  const id = 'x'.repeat(100_000);
  expect(await readLedger(`event_id,amount\n${id},1\n`)).toEqual([{ line: 2, values: [id, '1'] }]);
});

test('a row that is not CSV is refused with its line', async () => {
  await expect(readLedger('event_id,amount\nevt_1,1\nevt_2,2,3\n')).rejects.toThrow('line 3: ');
});
