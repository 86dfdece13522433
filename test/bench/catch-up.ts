/** Catch-up: events per second from the list into an SQLite inbox and through the handlers, and the peak of memory. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { run } from '../child.js';
import { serveBacklog } from './backlog-server.js';
import type { Job, Taken } from './take-backlog.js';

export interface CatchUpResult extends Taken {
  readonly count: number;
}

/**
 * V8 lets garbage pile up to a multiple of what lives, so its heap is bounded: by the same for every backlog,
 * and by what the events and their texts take. A poll that needed more would not end.
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
      const since = backlog.createdAt(OLDER);
      results.push({ count, ...(await take({ url: backlog.url, count, since, lagMs: LAG_MS })) });
    } finally {
      await backlog.close();
    }
  }
  return results;
}

async function take(work: Omit<Job, 'file'>): Promise<Taken> {
  const folder = await mkdtemp(join(tmpdir(), 'stablehooks-bench-'));
  try {
    const program = fileURLToPath(new URL('take-backlog.ts', import.meta.url));
    const job = JSON.stringify({ ...work, file: join(folder, 'inbox.db') });
    const args = [heapBound(work.count), '--import', 'tsx', program, job];
    const cwd = fileURLToPath(new URL('.', import.meta.url));
    return JSON.parse(await run({ args, cwd, env: { NODE_ENV: 'production' } }));
  } finally {
    await rm(folder, { recursive: true });
  }
}
