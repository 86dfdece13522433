/** The fuzzer of sockets finds a fault for each kind of finding that it knows. */
import { describe, expect, test, vi } from 'vitest';
import { SOCKET_FAULTS } from './socket-faults.js';
import { fuzzSockets, growthOf, SOCKET_FINDINGS, type SocketFindingKind, shapesNotShown } from './sockets.js';

const SEED = 18;

/** Each is long beside the milliseconds that a delivery takes. */
const LIMITS = { bodyMs: 2_000, serverMs: 10_000, connectionMs: 60_000, answerMs: 120_000 };

/** The kinds that are found when a limit is over. */
const WAITED_FOR: readonly SocketFindingKind[] = [
  'a connection is neither answered nor closed',
  'connections stay open',
  'the process of the servers does not answer',
  'the process of the servers does not end by itself',
];
const SHORT_LIMITS = { bodyMs: 2_000, serverMs: 3_000, connectionMs: 6_000, answerMs: 12_000 };

// Many seconds of work, and more on a busy machine.
vi.setConfig({ testTimeout: 600_000 });

describe('the fuzzer of sockets', () => {
  test('has a fault for each kind of finding', () => {
    expect(new Set(Object.values(SOCKET_FAULTS).map(({ kind }) => kind))).toEqual(new Set(SOCKET_FINDINGS));
  });

  // At the same time, because they wait for limits.
  test.concurrent.each(Object.entries(SOCKET_FAULTS))('finds a server that %s', async (fault, { kind }) => {
    // Growth is told from variation by many samples.
    const requests = kind === 'each request leaves bytes behind' ? 2_000 : 200;
    const limits = WAITED_FOR.includes(kind) ? SHORT_LIMITS : LIMITS;
    const { findings } = await fuzzSockets({ seed: SEED, requests, fault, limits });
    expect(findings.map((finding) => finding.kind)).toContain(kind);
  });

  test.concurrent('finds nothing in servers without a fault', async () => {
    const limits = { ...LIMITS, bodyMs: 5_000 };
    const { findings, requests } = await fuzzSockets({ seed: SEED, requests: 1_500, limits });
    expect(findings).toEqual([]);
    expect(requests).toBeGreaterThanOrEqual(1_500);
  });

  test('tells growth from variation', () => {
    const samples = (growth: number) =>
      Array.from({ length: 40 }, (_, at) => ({
        requests: at * 100,
        bytes: 1e7 + at * 100 * growth + (at % 3) * 500,
      }));
    expect(growthOf(samples(0))).toBeLessThan(1);
    expect(growthOf(samples(100))).toBeCloseTo(100, 0);
  });

  test('says what never occurred', () => {
    expect(shapesNotShown({ shapes: {}, statuses: {} }).length).toBeGreaterThan(100);
  });
});
