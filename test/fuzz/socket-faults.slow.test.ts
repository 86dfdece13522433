/** The fuzzer of sockets finds a fault for each kind of finding that it knows. */
import { describe, expect, test, vi } from 'vitest';
import { SOCKET_FAULTS } from './socket-faults.js';
import { fuzzSockets, growthOf, SOCKET_KINDS, type SocketFinding } from './sockets.js';

const seed = 18;

/** What is found when a limit is over. */
const WAITED_FOR: readonly SocketFinding[] = [
  'a connection is neither answered nor closed',
  'connections stay open',
  'the process of the servers ended without an answer',
  'the process of the servers does not end by itself',
];

// Many seconds of work, and more on a busy machine.
vi.setConfig({ testTimeout: 600_000 });

describe('the fuzzer of sockets', () => {
  // At the same time, because they wait for limits.
  test.concurrent.each(Object.keys(SOCKET_FAULTS) as SocketFinding[])('finds: %s', async (fault) => {
    // Growth is told from variation by many samples.
    const requests = fault === 'each request leaves bytes behind' ? 2_000 : 300;
    const bodyMs = WAITED_FOR.includes(fault) ? 1_500 : 5_000;
    const { failure } = await fuzzSockets({ seed, requests, fault, bodyMs });
    expect(failure).toContain(fault);
  });

  test.concurrent('finds nothing in servers without a fault, and sends every kind of connection', async () => {
    const { failure, counts } = await fuzzSockets({ seed, requests: 2_500, bodyMs: 5_000 });
    expect(failure).toBeUndefined();
    expect(SOCKET_KINDS.filter((kind) => !(kind in counts))).toEqual([]);
  });

  test('tells growth from variation', () => {
    const samples = (growth: number) =>
      Array.from({ length: 40 }, (_, at) => ({
        sent: at * 100,
        bytes: 1e7 + at * 100 * growth + (at % 3) * 500,
      }));
    expect(growthOf(samples(0))).toBeLessThan(1);
    expect(growthOf(samples(100))).toBeCloseTo(100, 0);
  });
});
