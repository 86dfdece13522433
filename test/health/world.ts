/** An app with its inbox, service and poller on a simulated clock, and everything that says whether all is well. */
import { writeFile } from 'node:fs/promises';
import Database from 'libsql';
import { createReceiver, type EventType, type Handler, type UnknownEvent } from 'stablehooks';
import { createPoller, type PollerClient } from 'stablehooks/catch-up';
import { health, toHealthRoutes } from 'stablehooks/health';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { createInspector, fromInbox } from 'stablehooks-kit/inspector';
import { onTestFinished, vi } from 'vitest';
import { makeFolder, run } from '../../kit/test/command.js';
import { delivery, secret } from '../receiver/delivery.js';

export const MINUTE_MS = 60_000;
const START = Date.parse('2026-03-01T09:00:00Z');

const PAGE_TONES = { failing: 'bad', warning: 'doubtful', neutral: 'neutral', ok: 'good' } as const;

type Handlers = Partial<Record<EventType, Handler<EventType>>>;

/** Timers that run when the simulated clock passes them. */
function createTimers() {
  const timers = new Map<object, { readonly at: number; readonly callback: () => void }>();
  return {
    runtime: {
      setTimeout: (callback: () => void, ms: number) => {
        const timer = {};
        // The next turn of the event loop.
        if (ms === 0) setImmediate(callback);
        else timers.set(timer, { at: Date.now() + ms, callback });
        return timer;
      },
      clearTimeout: (timer: unknown) => void timers.delete(timer as object),
    },
    run() {
      for (const [timer, { at, callback }] of timers) {
        if (at > Date.now() || !timers.delete(timer)) continue;
        callback();
      }
    },
  };
}

export function createWorld(handlers: Handlers = { 'transfer.settled': () => undefined }) {
  vi.useFakeTimers({ toFake: ['Date'], now: START });
  const timers = createTimers();
  const db = new Database(':memory:');
  const inbox = sqliteInbox(db);
  const lines: string[] = [];
  const logger = { warn: (line: string) => void lines.push(line), error: () => undefined };
  const inspector = createInspector({ source: fromInbox(inbox, { name: 'app' }), authorize: () => true });
  onTestFinished(async () => {
    vi.useRealTimers();
    await inspector.close();
    db.close();
  });
  const routes = toHealthRoutes(inbox);
  const listed: UnknownEvent[] = [];
  let count = 0;

  const makeReceiver = (own: Handlers) =>
    createReceiver({ secret, inbox, handlers: own, logger, runtime: timers.runtime });
  const receiver = makeReceiver(handlers);
  const world = {
    ...{ db, inbox, receiver, lines, listed, makeReceiver, minute: 0, runs: true, polls: true },
    /** What the list answers instead of its events. */
    list: undefined as (() => Promise<never> | readonly UnknownEvent[]) | undefined,

    event(type: string = 'transfer.settled'): UnknownEvent {
      count += 1;
      const created = new Date().toISOString();
      return { id: `evt_${count}`, type, created_at: created, payload: {} };
    },

    /** Creates an event, lists it and pushes it. */
    async push(type?: string, { to = receiver, headers = {} } = {}) {
      const event = world.event(type);
      listed.unshift(event);
      return to.receive(await delivery(event, { headers }));
    },

    /** The clock goes on by a minute: the timers, the poller and the redriver run. */
    async tick() {
      vi.setSystemTime(Date.now() + MINUTE_MS);
      world.minute += 1;
      timers.run();
      if (world.runs) await receiver.redrive().catch(() => undefined);
      if (world.polls) await poller.pollOnce();
      // The note of the tally is written.
      await new Promise((resolve) => setImmediate(resolve));
    },

    /** What `health` says. @throws if `/healthz` or the page says something else. */
    async judge() {
      const judged = await health(inbox);
      const answer = await routes.health();
      const names = judged.checks.map(({ name, tone, healthy }) => ({ name, tone, healthy }));
      const route = await answer.json();
      const page = await (
        await inspector.fetch(new Request('http://app.example/api/overview?fresh=1'))
      ).json();
      const said = JSON.stringify([answer.status, route, page.tone, page.verdict, page.checks.length]);
      const expected = [judged.healthy ? 200 : 503, { healthy: judged.healthy, checks: names }];
      const all = JSON.stringify([
        ...expected,
        PAGE_TONES[judged.tone],
        judged.verdict,
        judged.checks.length,
      ]);
      if (said !== all) throw new Error(`health: ${all}\nothers: ${said}`);
      return judged;
    },

    /** What the command `status` says about a copy of the database at the simulated time. */
    async status() {
      await using folder = await makeFolder();
      db.exec(`VACUUM INTO '${folder.at('copy.db')}'`);
      const clock = folder.at('clock.mjs');
      await writeFile(clock, `Date.now = () => ${Date.now()};`);
      const args = ['status', '--inbox', folder.at('copy.db'), '--json'];
      const { stdout, exitCode } = await run(args, { env: { NODE_OPTIONS: `--import=${clock}` } });
      return { exitCode, ...JSON.parse(stdout) };
    },
  };

  const client: PollerClient = {
    events: {
      listWithProblems: async ({ type, limit }) => {
        const found = (await world.list?.()) ?? listed;
        const events = found.filter((each) => type === undefined || each.type === type).slice(0, limit);
        return { events, problems: [], size: events.length };
      },
    },
  };
  const poller = createPoller({ client, receiver, logger, maxLimit: 10_000, runtime: timers.runtime });
  return Object.assign(world, { poller });
}

export type World = ReturnType<typeof createWorld>;
