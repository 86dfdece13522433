/** The fuzzer of `receive` finds a fault for each kind of finding that it knows. */
import { describe, expect, test, vi } from 'vitest';
import { fuzzReceive, INPUT_KINDS, type Parts } from './receive.js';
import { RECEIVE_FAULTS } from './receive-faults.js';
import { fuzzReceiveInProcess } from './receive-spans.js';

const HANGS = 'the process ended without an answer';

// Many seconds of work, and more on a busy machine.
vi.setConfig({ testTimeout: 600_000 });

/** What runs with several seeds find, because a fault can break more than one promise. */
async function findingsIn(parts: Parts, isEnough: (found: string) => boolean): Promise<string> {
  let found = '';
  for (let seed = 0; seed < 20 && !isEnough(found); seed += 1) {
    const { failure } = await fuzzReceive({ seed, numRuns: 100, endOnFailure: true }, parts);
    found += failure?.slice(failure.indexOf('Got error')) ?? '';
  }
  return found;
}

describe('the fuzzer of receive', () => {
  test('finds nothing in a receiver without a fault, and reports the same from a process of its own', async () => {
    const report = await fuzzReceive({ seed: 18, numRuns: 200 });
    expect(report.failure).toBeUndefined();
    expect(await fuzzReceiveInProcess({ seed: 18, inputs: report.sent })).toEqual(report);
  });

  test('runs every kind of input', async () => {
    const { counts } = await fuzzReceive({ seed: 18, numRuns: 400 });
    expect(INPUT_KINDS.filter((kind) => !(kind in counts))).toEqual([]);
  });

  test.each(Object.entries(RECEIVE_FAULTS).filter(([finding]) => finding !== HANGS))(
    'finds: %s',
    async (finding, parts) => {
      expect(await findingsIn(parts, (found) => found.includes(finding))).toContain(finding);
    },
  );

  test(`finds: ${HANGS}`, async () => {
    const { failure } = await fuzzReceiveInProcess({ seed: 18, inputs: 4_000, fault: HANGS, limitMs: 5_000 });
    expect(failure).toContain(HANGS);
  });
});
