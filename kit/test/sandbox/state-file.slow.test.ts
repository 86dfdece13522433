import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { createSandbox } from 'stablehooks-kit/sandbox';
import { expect, onTestFinished, test } from 'vitest';
import { atNight } from '../../../test/nightly.js';

const EVENTS = atNight(250_000, 100_000);

function stateFile(): string {
  const folder = mkdtempSync(join(tmpdir(), 'sandbox-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return join(folder, 'state.json');
}

/**
 * Runs the work, and returns the most processor time in ms that this process took between two turns of its event loop:
 * even on a busy machine, that is the work of one step.
 */
async function longestBlock(work: () => Promise<void>): Promise<number> {
  let [longest, isDone] = [0, false];
  const turns = async () => {
    while (!isDone) {
      const before = process.cpuUsage();
      await nextTurn();
      const { user, system } = process.cpuUsage(before);
      longest = Math.max(longest, (user + system) / 1_000);
    }
  };
  const watching = turns();
  await work();
  isDone = true;
  await watching;
  return longest;
}

test(`${EVENTS} events are saved without blocking the event loop`, async () => {
  const path = stateFile();
  const options = { stateFile: path, saveAfterMs: 600_000, maxEvents: EVENTS };
  const payload = { amount: '1.00', memo: 'x'.repeat(300) };
  const sandbox = createSandbox(options);
  for (let n = 0; n < EVENTS; n++) {
    sandbox.emit('transfer.settled', payload);
    // In slices: what is measured is the saving, and not the garbage of one long step before it.
    if (n % 1000 === 0) await nextTurn();
  }
  const whole = await longestBlock(() => sandbox.save());
  expect(statSync(path).size).toBeGreaterThan(EVENTS * 300);
  console.log('The longest step in ms of processor time:', whole);
  // A save in one step takes seconds. The bound leaves room for the garbage collector, which runs beside.
  expect(whole).toBeLessThan(250);
  await sandbox.close();
  const restored = createSandbox(options);
  expect(restored.events({ limit: 1 })).toEqual(sandbox.events({ limit: 1 }));
  expect(restored.events()).toHaveLength(EVENTS);
  await restored.close();
});
