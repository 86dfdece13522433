/** Every recorded mutant that no test notices has a reason, and every reason is that of one. */
import { expect, test } from 'vitest';
import { groups, notRunYet } from '../mutation/groups.js';
import { isReasonOf, readResults, reasonOf, reasons } from '../mutation/record.js';

const results = Object.values(readResults()).flatMap((files) => Object.entries(files));
const survivors = results.flatMap(([file, result]) =>
  result.survivors.map((survivor) => ({ file, survivor })),
);

test('every recorded mutant that no test notices has a reason', () => {
  expect(survivors.length).toBeGreaterThan(0);
  const without = survivors.filter(({ file, survivor }) => reasonOf(file, survivor) === undefined);
  expect(without.map(({ file, survivor }) => `${file}:${survivor.line}: ${survivor.mutation}`)).toEqual([]);
});

test('every reason is that of a recorded mutant, where the file has a result', () => {
  const recorded = reasons.filter((reason) => results.some(([file]) => file === reason.file));
  const unused = recorded.filter(
    (reason) => !survivors.some(({ file, survivor }) => isReasonOf(reason, file, survivor)),
  );
  expect(unused).toEqual([]);
});

test('a group that is listed as not run has no result', () => {
  expect(groups.map(({ name }) => name)).toEqual(expect.arrayContaining([...notRunYet]));
  expect(notRunYet.filter((name) => readResults()[name] !== undefined)).toEqual([]);
});
