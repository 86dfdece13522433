/** The fuzzer of `receive` finds a fault for each kind of finding that it knows. */
import { describe, expect, test, vi } from 'vitest';
import { BATCH, fuzzReceive, notShown, RECEIVE_FINDINGS } from './receive.js';
import { RECEIVE_FAULTS, type ReceiveFault } from './receive-faults.js';
import { fuzzReceiveInProcess } from './receive-spans.js';

const SEED = 18;

// Many seconds of work, and more on a busy machine.
vi.setConfig({ testTimeout: 600_000 });

describe('the fuzzer of receive', () => {
  const span = { seed: SEED, from: 0, to: 8 * BATCH };

  test('has a fault for each kind of finding', () => {
    expect(new Set(Object.values(RECEIVE_FAULTS).map(({ kind }) => kind))).toEqual(new Set(RECEIVE_FINDINGS));
  });

  test('finds nothing in a receiver without a fault, and gives the same report in a process of its own', async () => {
    const first = await fuzzReceive(span);
    expect(first.findings).toEqual([]);
    expect(await fuzzReceiveInProcess({ seed: SEED, inputs: span.to })).toEqual(first);
  });

  test.each(Object.entries(RECEIVE_FAULTS))('finds %s', async (fault, { kind, detail, ...parts }) => {
    const { findings } =
      kind === 'the process ends or takes too long'
        ? await fuzzReceiveInProcess({ seed: SEED, inputs: span.to, fault, limitMs: 5_000 })
        : await fuzzReceive({ ...span, ...parts });
    expect(findings).toContainEqual(
      expect.objectContaining({ kind, what: expect.stringMatching(detail ?? kind) }),
    );
  });

  test('names the mutation that is needed, the seed and the index, and nothing confidential', async () => {
    const { make } = RECEIVE_FAULTS['a line of the log that quotes the body'] as ReceiveFault;
    const { findings } = await fuzzReceive({ ...span, ...(make !== undefined && { make }) });
    expect(findings[0]).toMatchObject({ seed: SEED, index: expect.any(Number), steps: expect.any(Array) });
    expect(JSON.stringify(findings)).not.toMatch(/mark[0-9a-z]{20}/);
    expect(JSON.stringify(findings)).toContain('(redacted)');
  });

  test('says what never occurred', async () => {
    const { outcomes, mutations } = await fuzzReceive({ ...span, to: 10 });
    expect(notShown({ outcomes, mutations }).length).toBeGreaterThan(20);
  });
});
