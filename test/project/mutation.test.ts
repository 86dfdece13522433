/** Every recorded mutant that no test notices has a reason, and every reason is that of one. */
import { expect, test } from 'vitest';
import { isReasonOf, readResults, reasonOf, reasons } from '../mutation/record.js';

const survivors = Object.values(readResults()).flatMap((files) =>
  Object.entries(files).flatMap(([file, result]) => result.survivors.map((survivor) => ({ file, survivor }))),
);

test('every recorded mutant that no test notices has a reason', () => {
  expect(survivors.length).toBeGreaterThan(0);
  const without = survivors.filter(({ file, survivor }) => reasonOf(file, survivor) === undefined);
  expect(without.map(({ file, survivor }) => `${file}:${survivor.line}: ${survivor.mutation}`)).toEqual([]);
});

test('every reason is that of a recorded mutant', () => {
  const unused = reasons.filter(
    (reason) => !survivors.some(({ file, survivor }) => isReasonOf(reason, file, survivor)),
  );
  expect(unused).toEqual([]);
});
