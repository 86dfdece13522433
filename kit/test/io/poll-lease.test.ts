import { memoryInbox } from 'stablehooks';
import { POLL_NOTE } from 'stablehooks/catch-up';
import { expect, onTestFinished, test, vi } from 'vitest';
import { holdPollLease, POLL_LEASE_MS } from '../../src/io/poll-lease.js';

test('renewals do not pile up behind one that hangs, and the release gives up after 5 seconds', async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const inbox = memoryInbox();
  let calls = 0;
  let isHanging = false;
  const { release } = await holdPollLease({
    ...inbox,
    leaseNote: (...lease) => {
      calls += 1;
      return isHanging ? new Promise(() => undefined) : inbox.leaseNote(...lease);
    },
  });
  isHanging = true;
  await vi.advanceTimersByTimeAsync(10 * POLL_LEASE_MS);
  expect(calls).toBe(2);
  let isReleased = false;
  const released = release().then(() => {
    isReleased = true;
  });
  await vi.advanceTimersByTimeAsync(4_999);
  expect(isReleased).toBe(false);
  await vi.advanceTimersByTimeAsync(1);
  await released;
});

test('the lease is renewed while it is held, and free immediately after its release', async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const inbox = memoryInbox();
  const { release } = await holdPollLease(inbox);
  await vi.advanceTimersByTimeAsync(10 * POLL_LEASE_MS);
  const acquire = () => inbox.leaseNote(POLL_NOTE, { holder: 'another', leaseMs: POLL_LEASE_MS });
  expect(await acquire()).toBe(false);
  await release();
  expect(await acquire()).toBe(true);
});
