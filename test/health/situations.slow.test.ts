/** 24 situations, each with what every judge says about it. */

import { PermanentError, SIGNATURE_HEADER, sign } from 'stablehooks';
import { ApiError, ConnectionError } from 'stablehooks/client';
import type { HealthCheckName, HealthTone } from 'stablehooks/health';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { describe, expect, test, vi } from 'vitest';
import { atNight } from '../nightly.js';
import { blocksOf } from '../project/markdown.js';
import { textOf } from '../project/source.js';
import { createWorld, MINUTE_MS, type World } from './world.js';

const HOUR = 60;
/** Longer than any rule of a check looks back. */
const LONG = atNight(48, 26) * HOUR;
/** A broken app is red within so many minutes of meeting the rule of its check. */
const NOTICED = 10;

interface Situation {
  readonly name: string;
  readonly handlers?: Parameters<typeof createWorld>[0];
  /** What happens in each minute. */
  readonly minute?: (world: World, minute: number) => unknown;
}

interface Calm extends Situation {
  /** For how many minutes no judge may be red. */
  readonly until?: number;
  readonly tone: HealthTone;
  readonly verdict: RegExp;
}

interface Broken extends Situation {
  readonly check: HealthCheckName;
  /** When the rule of the check is met, in minutes. No judge is red before. */
  readonly from: number;
  readonly message: RegExp;
}

const fails = () => {
  throw new Error('the bank is down');
};
const each = (every: number, type?: string) => (world: World, minute: number) =>
  minute % every === 0 ? world.push(type) : undefined;
const request = { method: 'GET', url: 'https://api.example/v1/webhooks/events' };

const CALM: readonly Calm[] = [
  {
    name: 'nothing is used yet',
    minute: (world) => {
      world.polls = false;
    },
    ...{ tone: 'neutral', verdict: /^Nothing to judge/ },
  },
  { name: 'the first day', minute: each(47), tone: 'ok', verdict: /^All is well/ },
  {
    name: 'a type has no handler',
    minute: async (world, minute) => {
      if (minute % 60 === 0) await world.push('redeem.completed');
      else if (minute % 47 === 0) await world.push();
    },
    ...{ tone: 'warning', verdict: /^Nothing is failing\. Look at: ignored \(\d+\)\.$/ },
  },
  {
    name: 'two receivers with different handlers share the inbox',
    minute: async (world, minute) => {
      if (minute === 100) {
        const cron = world.makeReceiver({ 'redeem.completed': () => undefined });
        await world.push('transfer.settled', { to: cron });
      }
      if (minute % 47 === 0) await world.push();
    },
    until: 200,
    ...{ tone: 'warning', verdict: /Look at: ignored \(1\)\.$/ },
  },
  {
    name: 'a type is unknown and parked',
    minute: async (world, minute) => {
      if (minute % 47 === 0) await world.push(minute === 47 ? 'wallet.frozen' : undefined);
    },
    ...{ tone: 'warning', verdict: /Look at: ignored \(1\)\.$/ },
  },
  {
    name: 'a quiet week',
    minute: (world, minute) => (minute <= 3 ? world.push() : undefined),
    ...{
      tone: 'ok',
      verdict: /^All is well\. Nothing is overdue\. The event list proves that nothing is missing/,
    },
  },
  {
    name: 'bots without a signature',
    minute: async (world, minute) => {
      if (minute % 47 === 0) await world.push();
      await world.push('transfer.settled', { headers: { [SIGNATURE_HEADER]: '' } });
      world.listed.shift();
    },
    ...{ tone: 'ok', verdict: /^All is well/ },
  },
  {
    name: 'a clock that was ahead for a minute, and is back',
    minute: async (world, minute) => {
      if (minute === 100) {
        const now = Date.now();
        vi.setSystemTime(now + 24 * HOUR * MINUTE_MS);
        await world.inbox.claim(world.event(), { leaseMs: MINUTE_MS, origin: 'push' });
        await world.poller.pollOnce();
        vi.setSystemTime(now);
      }
      if (minute % 47 === 0) await world.push();
    },
    until: 300,
    ...{ tone: 'ok', verdict: /^All is well/ },
  },
  {
    name: 'a burst, then quiet',
    // 80 events of one type within ten minutes, and then none.
    minute: async (world, minute) => {
      for (let pushed = 0; minute <= 10 && pushed < 8; pushed += 1) await world.push();
    },
    ...{ tone: 'neutral', verdict: /^Nothing is overdue\. Not verified yet: coverage/ },
  },
  {
    name: 'a list of 50 that may be capped, as no larger answer was seen',
    minute: async (world, minute) => {
      for (let pushed = 0; minute <= 10 && pushed < 5; pushed += 1) await world.push();
      world.list = () => world.listed.slice(0, 50);
    },
    ...{ tone: 'neutral', verdict: /^Nothing is overdue\. Not verified yet: coverage/ },
  },
];

const BROKEN: readonly Broken[] = [
  {
    name: 'the poller reads the empty list of another environment',
    minute: async (world, minute) => {
      if (minute % 7 === 0) await world.push();
      world.list = () => [];
    },
    // The first pushed event is older than lagMs and the bounds of the survey, and is not listed.
    ...{ check: 'gaps', from: 11, message: /pushed to you are not in the list|1 gap is open/ },
  },
  {
    name: 'every handler fails',
    handlers: { 'transfer.settled': fails },
    minute: each(1),
    ...{
      check: 'failing',
      from: 3,
      message: /from the last hour failed .*ERR_HANDLER_FAILED \d+\. The latest error is .*the bank is down/,
    },
  },
  {
    name: 'one type fails',
    handlers: { 'transfer.settled': () => undefined, 'redeem.completed': fails },
    minute: async (world, minute) => {
      await world.push();
      await world.push(minute >= 60 ? 'redeem.completed' : undefined);
    },
    // The third failure, and more than a tenth of an hour.
    ...{ check: 'failing', from: 63, message: /\d+ of \d+ events from the last hour failed/ },
  },
  {
    name: 'half of the events fail',
    handlers: { 'transfer.settled': ({ id }) => (Number(id.slice(4)) % 2 ? fails() : undefined) },
    minute: each(1),
    ...{ check: 'failing', from: 5, message: /\d+ of \d+ events from the last hour failed/ },
  },
  {
    name: 'one event fails for two hours',
    handlers: { 'transfer.settled': ({ id }) => (id === 'evt_10' ? fails() : undefined) },
    minute: each(1),
    ...{
      check: 'failing',
      from: 70,
      message: /^1 event has been failing for more than an hour, the first received at 2026-03-01T09:09/,
    },
  },
  {
    name: 'an event is dead',
    handlers: {
      'transfer.settled': ({ id }) => {
        if (id === 'evt_10') throw new PermanentError('the account is closed');
      },
    },
    minute: each(1),
    ...{ check: 'dead', from: 10, message: /^1 event is dead, .*the account is closed/ },
  },
  {
    name: 'the token of the poller expires',
    minute: async (world, minute) => {
      if (minute % 7 === 0) await world.push();
      if (minute === 100) world.list = () => Promise.reject(expired());
    },
    ...{
      check: 'poll',
      from: 105,
      message: /^Polls have failed to read the event list since \S+T10:4\S+\. ERR_API_STATUS: .*401/,
    },
  },
  {
    name: 'the token of the poller never was right',
    minute: (world) => {
      world.list = () => Promise.reject(expired());
    },
    ...{ check: 'poll', from: 5, message: /ERR_API_STATUS: .*401/ },
  },
  {
    name: 'the list is down',
    minute: async (world, minute) => {
      const down = { ...request, cause: undefined, unsent: true };
      if (minute === 100) world.list = () => Promise.reject(new ConnectionError('GET … refused', down));
    },
    ...{ check: 'poll', from: 105, message: /ERR_API_CONNECTION: GET … refused/ },
  },
  {
    name: 'the secret is wrong',
    minute: async (world, minute) => {
      if (minute % 7 !== 0) return;
      const wrong = await sign(new TextEncoder().encode('other'), { secret: 'wrong' });
      await world.push('transfer.settled', { headers: minute > 100 ? { [SIGNATURE_HEADER]: wrong } : {} });
      if (minute > 100) world.listed.shift();
    },
    ...{
      check: 'refused',
      from: 133,
      message:
        /^The last 5 signed deliveries were refused, and none has been accepted since 2026.*ERR_SIGNATURE_MISMATCH 5/,
    },
  },
  {
    name: 'the poller stops',
    minute: async (world, minute) => {
      world.polls = minute < 100;
    },
    ...{
      check: 'coverage',
      from: 155,
      message: /no poll has proven anything since 2026-03-01T10:34.*Check that the poller is running/,
    },
  },
  {
    name: 'the runner stops',
    minute: async (world, minute) => {
      if (minute === 100) await world.inbox.record([world.event()], { dueInMs: 0, origin: 'push' });
      world.runs = minute < 100;
      world.polls = minute < 100;
    },
    ...{ check: 'due', from: 104, message: /^1 event is overdue, .*receiver\.start/ },
  },
  {
    name: 'the process is killed while a handler runs',
    minute: async (world, minute) => {
      // By another process.
      const inbox = sqliteInbox(world.db);
      if (minute === 100) await inbox.claim(world.event(), { leaseMs: MINUTE_MS, origin: 'push' });
      world.runs = minute < 100;
      world.polls = minute < 100;
    },
    ...{ check: 'leases', from: 105, message: /^1 event is stuck with an expired lease/ },
  },
  {
    name: 'the database is read-only',
    minute: async (world, minute) => {
      if (minute === 100) world.db.exec('PRAGMA query_only = ON');
      if (minute % 7 === 0) await world.push();
    },
    ...{ check: 'refused', from: 100, message: /^The inbox's database rejects writes: .*503/ },
  },
];

/** The lines of `status` that are not green, as the runbook shows them. */
const printed = new Set<string>();

function note({ checks }: Awaited<ReturnType<World['judge']>>) {
  for (const { name, tone, message } of checks)
    if (tone === 'failing') printed.add(toLine(`no ${name} ${message}`));
    else if (tone === 'warning') printed.add(toLine(`! ${name} ${message}`));
}

const toLine = (text: string) =>
  text
    .replaceAll(/\d{4}-[\d:.T-]+Z/g, 'TIME')
    .replaceAll(/\s+/g, ' ')
    .trim();

function expired() {
  const facts = { ...request, status: 401, headers: new Headers(), body: '', retryAfterMs: undefined };
  return new ApiError(
    'GET … returned 401. Check that the token is valid and belongs to this base URL.',
    facts,
  );
}

describe('a calm app is never red, and every judge says the same', () => {
  test.for(CALM)('$name', async ({ handlers, minute, until = LONG, tone, verdict }) => {
    const world = createWorld(handlers);
    for (let now = 1; now <= until; now += 1) {
      await minute?.(world, now);
      await world.tick();
      // The page is slow to ask.
      if (now % 20 !== 0 && now < until) continue;
      const { healthy, checks } = await world.judge();
      expect(healthy, `minute ${now}: ${JSON.stringify(checks)}`).toBe(true);
    }
    const judged = await world.judge();
    note(judged);
    expect(judged).toMatchObject({ tone, verdict: expect.stringMatching(verdict) });
    expect(await world.status()).toEqual({ exitCode: 0, ...judged });
  });

  test('a load of 1,000 events a minute', async () => {
    const world = createWorld();
    for (let now = 1; now <= 6; now += 1) {
      world.polls = now % 3 === 0;
      for (let pushed = 0; pushed < 1_000; pushed += 1) await world.push();
      await world.tick();
      const { checks } = await world.judge();
      const red = checks.filter(({ healthy }) => !healthy).map(({ name }) => name);
      expect(red).toEqual([]);
    }
  });

  test('dead events that are requeued after the repair', async () => {
    let isRepaired = false;
    const world = createWorld({
      'transfer.settled': () => {
        if (!isRepaired) throw new PermanentError('the bank is down');
      },
    });
    for (let now = 1; now <= 30; now += 1) {
      await world.push();
      await world.tick();
    }
    expect(await world.judge()).toMatchObject({
      verdict: expect.stringMatching(/^Needs you: dead \(30\), failing/),
    });
    isRepaired = true;
    expect(await world.inbox.requeue({ state: 'dead' })).toBe(30);
    await world.tick();
    expect(await world.judge()).toMatchObject({
      healthy: true,
      verdict: expect.stringMatching(/^All is well/),
    });
  });
});

describe('a broken app is red within ten minutes of meeting the rule, and not before', () => {
  test.for(BROKEN)('$name', async ({ name, handlers, minute, check, from, message }) => {
    const world = createWorld(handlers);
    let now = 0;
    const judge = async () => {
      now += 1;
      await minute?.(world, now);
      await world.tick();
      return world.judge();
    };
    for (let judged = await judge(); judged.healthy; judged = await judge()) {
      expect(now, `the check ${check} does not see it`).toBeLessThan(from + NOTICED);
    }
    const judged = await world.judge();
    note(judged);
    const { verdict, checks } = judged;
    expect(now, verdict).toBeGreaterThanOrEqual(from);
    const found = checks.find(({ name }) => name === check);
    expect(found).toMatchObject({ tone: 'failing', message: expect.stringMatching(message) });
    expect(verdict).toMatch(new RegExp(`^Needs you: .*${check}`));
    // Another process may write to the copy.
    if (!name.includes('read-only')) expect(await world.status()).toEqual({ exitCode: 1, ...judged });
  });
});

test('the runbook shows lines that status printed in these situations', () => {
  const blocks = blocksOf(textOf('docs/operations.md'), 'console').filter((block) =>
    block.includes('status\n'),
  );
  const shown = blocks.map((block) => toLine(/status\n([\s\S]*?)(?:^\$|(?![\s\S]))/m.exec(block)?.[1] ?? ''));
  expect(shown.length).toBeGreaterThan(8);
  expect(shown.filter((line) => !printed.has(line))).toEqual([]);
});
