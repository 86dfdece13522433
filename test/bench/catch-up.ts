/** Catch-up: events per second from the list into an SQLite inbox and through the handlers, and the peak of memory. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { run } from '../child.js';
import { serveBacklog } from './backlog-server.js';
import { progress } from './progress.js';
import type { Job, Taken, WAYS } from './take-backlog.js';

export type Way = keyof typeof WAYS;

export interface CatchUpResult extends Taken {
  readonly count: number;
  readonly way: Way;
}

/** Pages are made first, so the measured time contains only the poller's work. */
const ORDER: readonly Way[] = ['the pages alone', 'by hand', 'stablehooks'];

/** The loop by hand takes as long per event for more events, and two minutes for a million. */
const MOST_BY_HAND = 100_000;

/**
 * V8 lets garbage pile up to a multiple of what lives, so its heap is bounded, for every way alike: by the same for
 * every backlog, and by what the events and their texts take. A way that needed more would not end.
 */
function heapBound(count: number): string {
  return `--max-old-space-size=${Math.round(100 + count * 0.0018)}`;
}

/** Events older than the watermark, which show that the list reaches back past it. */
const OLDER = 200;
const LAG_MS = 500;

export async function measureCatchUp(counts: readonly number[]): Promise<readonly CatchUpResult[]> {
  const results: CatchUpResult[] = [];
  for (const count of counts) {
    const backlog = await serveBacklog(count);
    try {
      for (const way of ORDER) {
        if (way === 'by hand' && count > MOST_BY_HAND) continue;
        progress(`Catch-up of ${count.toLocaleString('en-US')} events: ${way}`);
        const since = backlog.createdAt(OLDER);
        results.push({ count, way, ...(await take(way, { url: backlog.url, count, since, lagMs: LAG_MS })) });
      }
    } finally {
      await backlog.close();
    }
  }
  return results;
}

async function take(way: Way, work: Omit<Job, 'file'>): Promise<Taken> {
  const folder = await mkdtemp(join(tmpdir(), 'stablehooks-bench-'));
  try {
    const program = fileURLToPath(new URL('take-backlog.ts', import.meta.url));
    const job = JSON.stringify({ ...work, file: join(folder, 'inbox.db') });
    const args = [heapBound(work.count), '--import', 'tsx', program, way, job];
    const cwd = fileURLToPath(new URL('.', import.meta.url));
    return JSON.parse(await run({ args, cwd, env: { NODE_ENV: 'production' } }));
  } finally {
    await rm(folder, { recursive: true });
  }
}
