/**
 * Takes a backlog into an SQLite file, in a process of its own, whose peak of memory is then this work's alone.
 *
 * `take-backlog.ts <way> <job as JSON>`; prints a {@link Taken} as JSON.
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

export const WAYS = {
  /** Asks for the list as the poller does (all of it, and the newer half as a probe) and keeps it: no inbox. */
  async 'the pages alone'({ url, count }: Job): Promise<number> {
    const { events } = clientOf(url);
    const pages = [
      await events.listWithProblems({ limit: count + 1 }),
      await events.listWithProblems({ limit: Math.floor(count / 2) }),
    ];
    if (pages.some(({ problems }) => problems.length > 0)) throw new Error('the list cannot be read');
    return 0;
  },

  /** A loop written by hand: inserts each event unless it exists, then handles it. */
  async 'by hand'({ url, file, count }: Job): Promise<number> {
    const db = new Database(file);
    db.pragma('journal_mode = WAL');
    db.exec('CREATE TABLE seen (id TEXT PRIMARY KEY, body TEXT NOT NULL)');
    const insert = db.prepare('INSERT OR IGNORE INTO seen VALUES (?, ?)');
    const response = await fetch(`${url}/v1/webhooks/events?limit=${count + 1}`);
    let handled = 0;
    for (const event of (await response.json()) as { readonly id: string }[]) {
      if (insert.run(event.id, JSON.stringify(event)).changes === 1) handled += 1;
    }
    return handled;
  },

  async stablehooks({ url, file, count, since, lagMs }: Job): Promise<number> {
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
      client: clientOf(url),
      receiver,
      limit: count + 1,
      maxLimit: count + 1,
      lagMs,
      since: new Date(since),
    });
    const report = await poller.pollOnce();
    if (!report.proven || report.failed > 0) throw new Error(`not proven: ${JSON.stringify(report)}`);
    return handled;
  },
} satisfies Record<string, (job: Job) => Promise<number>>;

function clientOf(baseUrl: string) {
  return createClient({ baseUrl, token: 'token', timeoutMs: 600_000 });
}

const [, , way, job] = process.argv;
if (way !== undefined && way in WAYS && job !== undefined) {
  const started = performance.now();
  const handled = await WAYS[way as keyof typeof WAYS](JSON.parse(job));
  const ms = performance.now() - started;
  // Not `maxRSS`, which on Linux begins with what the process had that started this one.
  const peak = /^VmHWM:\s*(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1];
  const taken: Taken = { ms, handled, peakBytes: Number(peak) * 1_024 };
  console.log(JSON.stringify(taken));
}
