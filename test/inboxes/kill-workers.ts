/** Kills workers of one inbox at random moments. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import type { Inbox, InboxOperations, UnknownEvent } from 'stablehooks';
import { exampleEvent } from 'stablehooks/testing';
import { expect, vi } from 'vitest';
import { readCount } from '../read-count.js';

/** How many processes are killed per driver or data layer. KILLS sets it for all tests that kill. */
export const KILLS = readCount(
  'LAYER_KILLS or KILLS',
  process.env['LAYER_KILLS'] ?? process.env['KILLS'] ?? '6',
);

export const TIMEOUT_MS = 300_000 + KILLS * 10_000;

/** How the events reach the workers: recorded as a poller records them, or delivered until a worker has answered 2xx. */
export const WAYS = ['recorded', 'delivered'] as const;

interface Workers {
  readonly way: (typeof WAYS)[number];
  /** The program. It reports that it is ready, begins at a message, and reports its first transaction and each outcome. */
  readonly file: string;
  readonly env: Readonly<Record<string, string>>;
  readonly inbox: Inbox<unknown> & InboxOperations;
}

/**
 * Starts workers, kills each in the middle of its work, and lets the last one finish.
 *
 * @returns the ids of all events; each is done or dead.
 */
export async function killWorkers({ way, file, env, inbox }: Workers): Promise<readonly string[]> {
  /** The processes, with the ids that they have not answered yet. */
  const children = new Map<ChildProcess, Set<string>>();
  const ids: string[] = [];
  /** Events that the service delivers again. */
  const unanswered = new Map<string, UnknownEvent>();

  async function addEvents() {
    const page = Array.from({ length: 16 }, () => exampleEvent('transfer.settled'));
    ids.push(...page.map(({ id }) => id));
    if (way === 'recorded') await inbox.record(page, { dueInMs: 0, origin: 'pull' });
    else for (const event of page) unanswered.set(event.id, event);
    deliver();
  }

  /** To each worker, some at a time: copies of one event can arrive at the same time. */
  function deliver() {
    for (const [child, open] of children) {
      for (const event of unanswered.values()) {
        // More would wait for a connection until their leases have lapsed.
        if (open.size >= 64) break;
        if (!open.has(event.id)) child.send(event, () => undefined);
        open.add(event.id);
      }
    }
  }

  /** Starts a process, and resolves when it has begun its first transaction. */
  async function start(): Promise<ChildProcess> {
    const child = fork(file, { env: { ...process.env, ...env }, execArgv: [] });
    child.once('exit', () => children.delete(child));
    child.on('message', (message: string | { readonly id: string; readonly kind: string }) => {
      if (typeof message !== 'object') return;
      children.get(child)?.delete(message.id);
      if (ANSWERED.includes(message.kind)) unanswered.delete(message.id);
    });
    await messageOf(child);
    children.set(child, new Set());
    let isStarted = false;
    const starting = messageOf(child).then(() => {
      isStarted = true;
    });
    child.send('begin');
    await addEvents();
    while (!isStarted) {
      await Promise.race([starting, pause(50)]);
      // Other processes can take all events first.
      const [waiting] = await inbox.list({ state: 'received', limit: 1 });
      if (waiting === undefined && unanswered.size === 0) await addEvents();
      else deliver();
    }
    return child;
  }

  let kills = 0;
  async function killInTurn() {
    while (kills < KILLS) {
      kills += 1;
      const child = await start();
      // The random wait is the subject of the test, not a synchronisation.
      await pause(Math.random() * 25);
      child.kill('SIGKILL');
      await once(child, 'exit');
    }
  }

  try {
    await Promise.all(Array.from({ length: availableParallelism() + 1 }, killInTurn));
    await start();
    await vi.waitFor(
      async () => {
        const ended = ['done', 'dead'];
        const open = (await inbox.count()).filter(({ state, count }) => !ended.includes(state) && count > 0);
        deliver();
        expect([open, unanswered.size]).toEqual([[], 0]);
      },
      { timeout: 120_000 + KILLS * 1_000, interval: 100 },
    );
  } finally {
    for (const child of children.keys()) child.kill('SIGKILL');
  }
  return ids;
}

/** The outcomes after which the service does not deliver again. */
const ANSWERED = ['handled', 'duplicate', 'dead', 'queued'];

/** The next message of a process; rejects when it ends before. */
async function messageOf(child: ChildProcess): Promise<void> {
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`The process ended with ${code} before it was ready.`);
  });
  await Promise.race([once(child, 'message'), ended]);
}
