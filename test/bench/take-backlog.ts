/**
 * Takes a backlog into an SQLite file, in a process of its own, whose peak of memory is then this work's alone.
 *
 * `take-backlog.ts <job as JSON>`; prints a {@link Taken} as JSON.
 */
import { readFileSync } from 'node:fs';
import Database from 'libsql';
import { createReceiver } from 'stablehooks';
import { createPoller } from 'stablehooks/catch-up';
import { createClient } from 'stablehooks/client';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { SECRET } from './secret.js';

export interface Job {
  readonly url: string;
  readonly file: string;
  readonly count: number;
  /** From when on nothing may be missed, epoch ms. */
  readonly since: number;
  readonly lagMs: number;
}

export interface Taken {
  readonly ms: number;
  readonly peakBytes: number;
  readonly handled: number;
}

async function takeBacklog({ url, file, count, since, lagMs }: Job): Promise<number> {
  let handled = 0;
  const receiver = createReceiver({
    secret: SECRET,
    inbox: sqliteInbox(new Database(file)),
    handlers: {
      'transfer.settled': () => {
        handled += 1;
      },
    },
  });
  const poller = createPoller({
    client: createClient({ baseUrl: url, token: 'token', timeoutMs: 600_000, maxBodyBytes: 2 ** 30 }),
    receiver,
    limit: count + 1,
    maxLimit: count + 1,
    lagMs,
    since: new Date(since),
  });
  const report = await poller.pollOnce();
  if (!report.proven || report.failed > 0) throw new Error(`not proven: ${JSON.stringify(report)}`);
  return handled;
}

const started = performance.now();
const handled = await takeBacklog(JSON.parse(process.argv[2] ?? ''));
const ms = performance.now() - started;
// Not `maxRSS`, which on Linux begins with what the process had that started this one.
const peak = /^VmHWM:\s*(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1];
const taken: Taken = { ms, handled, peakBytes: Number(peak) * 1_024 };
console.log(JSON.stringify(taken));
