/** Every recorded mutant that no test notices has a reason, and every reason is that of one. */
import { expect, test } from 'vitest';
import { groups } from '../mutation/groups.js';
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

test('every file whose mutants run has a result', () => {
  const recorded = readResults();
  const files = groups.flatMap(({ name, sources }) => sources.map((path) => ({ name, path })));
  expect(files.filter(({ name, path }) => recorded[name]?.[path] === undefined)).toEqual([]);
});
