import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { createSandbox } from 'stablehooks-kit/sandbox';
import { expect, onTestFinished, test } from 'vitest';

const EVENTS = 250_000;

function stateFile(): string {
  const folder = mkdtempSync(join(tmpdir(), 'sandbox-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return join(folder, 'state.json');
}

/**
 * Runs the work, and returns the most processor time in ms that this process took between two turns of its event loop:
 * on a busy machine, too, that is what the work did at once.
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

test('250,000 events are saved, as a whole and change by change, without blocking the event loop', async () => {
  const path = stateFile();
  const options = { stateFile: path, saveAfterMs: 600_000 };
  const payload = { amount: '1.00', memo: 'x'.repeat(300) };
  const sandbox = createSandbox(options);
  for (let n = 0; n < EVENTS; n++) {
    sandbox.emit('transfer.settled', payload);
    // In slices: what is measured is the saving, and not the garbage of one long step before it.
    if (n % 1000 === 0) await nextTurn();
  }
  const whole = await longestBlock(() => sandbox.save());
  expect(statSync(path).size).toBeGreaterThan(EVENTS * 300);
  sandbox.emit('transfer.settled');
  const change = await longestBlock(() => sandbox.save());
  rmSync(path);
  const rewritten = await longestBlock(() => sandbox.save());
  console.log('The longest steps in ms of processor time:', { whole, change, rewritten });
  // A save in one step takes seconds. The bound leaves room for the garbage collector, which runs beside.
  for (const blocked of [whole, change, rewritten]) expect(blocked).toBeLessThan(250);
  await sandbox.close();
  const restored = createSandbox(options);
  expect(restored.events({ limit: 1 })).toEqual(sandbox.events({ limit: 1 }));
  expect(restored.events()).toHaveLength(EVENTS);
  await restored.close();
});

test('the file is rewritten when most of it is out of date', async () => {
  const path = stateFile();
  const sandbox = createSandbox({ stateFile: path, maxEvents: 1, saveAfterMs: 60_000 });
  const text = 'x'.repeat(500_000);
  let longest = 0;
  for (let n = 0; n < 100; n++) {
    sandbox.emit('accept.confirmed', { text });
    await sandbox.save();
    longest = Math.max(longest, statSync(path).size);
  }
  expect(longest).toBeGreaterThan(10_000_000);
  expect(longest).toBeLessThan(22_000_000);
  await sandbox.close();
});
