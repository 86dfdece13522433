/** Push and list confront each other: a list that lacks what was pushed is not believed. */
import { EVENT_TYPES } from 'stablehooks';
import { listGaps } from 'stablehooks/catch-up';
import { health } from 'stablehooks/health';
import { reconcile } from 'stablehooks/reconcile';
import { expect, test } from 'vitest';
import { listed, MINUTE_MS, START, setUp } from './virtual-service.js';

const SENTENCE =
  /Events that were pushed to you are not in the list\. Check that the client's baseUrl and token/;
const since = new Date(START);

/** A list with other events, and pushes that it does not show. */
function setUpElsewhere(others: number) {
  const it = setUp();
  const runtime = { now: () => it.clock.now };
  const pushed: string[] = [];
  async function push(id: string): Promise<void> {
    const event = listed(id, it.clock.now - 1_000, EVENT_TYPES[pushed.length % 5]);
    await it.inbox.record([event], { dueInMs: 0, origin: 'push' });
    pushed.push(id);
  }
  /** Polls each minute for so long, with three pushes in all. */
  async function run(minutes: number) {
    const reports = [];
    for (let minute = 1; minute <= minutes; minute++) {
      it.clock.now += MINUTE_MS;
      if (minute <= others) it.events.push(listed(`other-${minute}`, it.clock.now - 2_000));
      if (pushed.length < 3) await push(`pushed-${minute}`);
      reports.push(await it.poll({ since }));
    }
    return reports;
  }
  const check = async () => {
    const { healthy, checks } = await health(it.inbox, { requirePoll: true, runtime });
    return { healthy, said: checks.map(({ message }) => message).join(' ') };
  };
  const compare = (ledger: readonly { readonly id: string }[] = []) =>
    reconcile({ client: it.client, inbox: it.inbox, ledger, since, runtime });
  return { ...it, pushed, push, run, check, compare };
}

test.each([
  ['is empty', 0],
  ['has other events', 60],
])(
  'a list that %s, and not the pushed ones, is not proven, not healthy and not in agreement',
  async (_, others) => {
    const it = setUpElsewhere(others);
    const reports = await it.run(20);
    const doubtful = reports.filter(({ diagnosis }) => SENTENCE.test(diagnosis));
    expect(doubtful.length).toBeGreaterThanOrEqual(3);
    expect(doubtful.map(({ proven }) => proven)).not.toContain(true);
    expect(await listGaps(it.inbox)).toMatchObject([{ state: 'open', reason: 'unlisted' }]);
    const { healthy, said } = await it.check();
    expect(healthy).toBe(false);
    expect(said).toMatch(SENTENCE);
    const result = await it.compare(it.handled.map((id) => ({ id })));
    expect(result.agree).toBe(false);
    expect(result.findings.unlisted.ids.toSorted()).toEqual(it.pushed.toSorted());
  },
);

test('once the list shows the pushed events, the gap closes', async () => {
  const it = setUpElsewhere(0);
  await it.run(12);
  for (const id of it.pushed) it.events.push((await it.inbox.find(id))?.event as never);
  const reports = await it.run(30);
  expect(reports.at(-1)).toMatchObject({ proven: true, gaps: [] });
});

test('pushed events that are younger than the lag, or from a time that the list no longer shows, cast no doubt', async () => {
  const it = setUpElsewhere(0);
  await it.push('pushed-now');
  it.events.push((await it.inbox.find('pushed-now'))?.event as never);
  for (let minute = 0; minute < 30; minute++) {
    it.clock.now += MINUTE_MS;
    // The service removes an event after 15 minutes.
    if (minute === 15) it.events.splice(0);
    expect(await it.poll({ since })).toMatchObject({ gapsOpened: [] });
  }
});

test('an empty list never agrees with an inbox or a ledger that is not empty', async () => {
  const it = setUpElsewhere(0);
  it.clock.now += 60 * MINUTE_MS;
  await it.poll({ since });
  await it.inbox.importDone(['imported']);
  const imported = await it.compare([{ id: 'imported' }]);
  expect(imported).toMatchObject({ agree: false });
  const ledger = await it.compare([{ id: 'only-in-the-ledger' }]);
  expect(ledger).toMatchObject({
    agree: false,
    diagnosis: expect.stringMatching(/URL and token belong to this environment/),
  });
});

test('a poller that begins after the pushes, with an empty list, does not call anything proven', async () => {
  const it = setUpElsewhere(0);
  for (const id of ['a', 'b', 'c']) {
    it.clock.now += MINUTE_MS;
    await it.push(id);
  }
  const reports = [];
  for (let minute = 0; minute < 12; minute++) {
    it.clock.now += MINUTE_MS;
    reports.push(await it.poll());
  }
  const proven = reports.filter((report) => report.proven && report.watermark !== null);
  expect(proven.filter(({ diagnosis }) => diagnosis.startsWith('Every event'))).toEqual([]);
  const { healthy, said } = await it.check();
  expect(healthy).toBe(false);
  expect(said).toMatch(SENTENCE);
});
