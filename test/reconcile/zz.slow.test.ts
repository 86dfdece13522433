import { mkdirSync, writeFileSync } from 'node:fs';
import { Session } from 'node:inspector/promises';
import { test } from 'vitest';
import { checkBooks } from './check-books.js';

test('x', async () => {
  const s = new Session();
  s.connect();
  await s.post('Profiler.enable');
  await s.post('Profiler.start');
  const before = process.cpuUsage();
  const t = performance.now();
  for (let seed = 1; seed <= 400; seed += 1) await checkBooks(seed, { dryRun: seed % 2 === 0 });
  const { user, system } = process.cpuUsage(before);
  console.log('CPU ms', (user + system) / 1000, 'wall', performance.now() - t);
  const { profile } = await s.post('Profiler.stop');
  mkdirSync('/tmp/st/prof', { recursive: true });
  writeFileSync('/tmp/st/prof/p.cpuprofile', JSON.stringify(profile));
});
