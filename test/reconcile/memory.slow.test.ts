import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { transform } from 'esbuild';
import { expect, onTestFinished, test } from 'vitest';
import { atNight } from '../nightly.js';

const COUNT = atNight(1_000_000, 50_000);
const ROOT = fileURLToPath(new URL('../../', import.meta.url));

/** Runs a step and returns its output. It has no loader of TypeScript, whose memory would count as well. */
async function runStep(...args: readonly string[]): Promise<string> {
  const source = await readFile(new URL('million.ts', import.meta.url), 'utf8');
  const { code } = await transform(source, { loader: 'ts', format: 'esm' });
  // Without a limit V8 lets garbage grow, by how much depends on the machine.
  const child = spawn(process.execPath, ['--max-old-space-size=160', '--input-type=module', '-', ...args], {
    cwd: ROOT,
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  child.stdin.end(code);
  const [printed, [exitCode]] = await Promise.all([text(child.stdout), once(child, 'exit')]);
  expect(exitCode).toBe(0);
  return printed;
}

test(`${COUNT} events and entries are reconciled within 300 MB, and every error is found`, async () => {
  const folder = await mkdtemp(join(tmpdir(), 'stablehooks-million-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await runStep('prepare', folder, String(COUNT));
  const { peakBytes, seconds, result } = JSON.parse(await runStep('measure', folder, String(COUNT)));
  const megabytes = Math.round(peakBytes / 1e6);
  console.log(`${COUNT} events and entries: ${megabytes} MB at most, ${Math.round(seconds)} s.`);
  expect(result).toMatchObject({
    complete: true,
    findings: {
      missing: { count: COUNT / 1_000 },
      doubled: { count: COUNT / 1_000 },
      mismatched: { count: COUNT / 1_000 },
      extra: { count: 0 },
      unlisted: { count: 0 },
    },
    totals: { inbox: COUNT, entries: COUNT, compared: COUNT },
  });
  expect(megabytes).toBeLessThan(300);
}, 900_000);
