import { parseXml, XmlElement } from '@rgrove/parse-xml';
import { EVENT_TYPES, memoryInbox, type StoredGap, type UnknownEvent } from 'stablehooks';
import { exampleEvent } from 'stablehooks/testing';
import { describe, expect, test } from 'vitest';
import {
  type CoverageData,
  type CoverageEvents,
  readCoverage,
  renderCoverage,
} from '../src/coverage-picture.js';

const HOUR = 3_600_000;
const NOW = Date.parse('2026-11-21T10:00:00Z');
/** The left and the right edge of the lanes. */
const [LEFT, RIGHT] = [176, 980];

function event(overrides: Partial<CoverageEvents> = {}): CoverageEvents {
  return {
    count: 1,
    type: 'transfer.settled',
    at: NOW - HOUR,
    source: 'push',
    late: false,
    pruned: false,
    ...overrides,
  };
}

function gap(
  from: number,
  until: StoredGap['until'],
  acknowledged: StoredGap['acknowledged'] = null,
): StoredGap {
  return { from, until, reason: 'not-reached', openedAt: NOW - HOUR, acknowledged };
}

/** A picture of ten hours, proven up to five minutes ago. */
function draw({ state, ...data }: { readonly [Name in keyof CoverageData]?: Partial<CoverageData[Name]> }) {
  const polled = { since: NOW - 10 * HOUR, watermark: NOW - 300_000, gaps: [], ...state };
  return open(renderCoverage({ now: NOW, events: [], ...data, state: polled } as CoverageData));
}

/** The picture, parsed by an XML parser that accepts only what is well-formed. */
function open(svg: string) {
  const { root } = parseXml(svg);
  if (root === null) throw new Error('The picture is empty.');
  const all = elementsOf(root);
  const lanes = all.flatMap((element) => {
    const [title] = element.children;
    const isLane = element.name === 'g' && title instanceof XmlElement && title.name === 'title';
    return isLane ? [{ name: title.text.split(':')[0] ?? '', elements: elementsOf(element) }] : [];
  });
  const inLane = (name: string, kind: string) =>
    lanes
      .find((lane) => lane.name === name)
      ?.elements.filter(({ attributes }) => attributes['class'] === kind) ?? [];
  return {
    svg,
    lanes: lanes.map(({ name }) => name),
    desc: all.find(({ name }) => name === 'desc')?.text ?? '',
    texts: all.filter(({ name }) => name === 'text'),
    /** How many marks of a kind a lane has. */
    marks: (name: string, kind: string) =>
      inLane(name, kind).reduce(
        (sum, { attributes }) => sum + (attributes['d']?.match(/M/g)?.length ?? 0),
        0,
      ),
    /** The left and right edges of the boxes of a kind in a lane. */
    boxes: (name: string, kind: string) =>
      inLane(name, kind).map(({ attributes: { x, width }, text }) => ({
        left: Number(x),
        right: Number(x) + Number(width),
        text,
      })),
    find: (kind: string) => all.filter(({ attributes }) => attributes['class']?.split(' ').includes(kind)),
  };
}

function elementsOf(element: XmlElement): readonly XmlElement[] {
  const children = element.children.filter((child) => child instanceof XmlElement);
  return children.flatMap((child) => [child, ...elementsOf(child)]);
}

describe('the picture of the coverage', () => {
  test('an inbox that no poll has used has five empty lanes, and says that nothing is proven', () => {
    const picture = draw({ state: { since: null, watermark: null } });
    expect(picture.lanes).toEqual(EVENT_TYPES);
    for (const kind of ['push', 'pull', 'late', 'pruned']) {
      expect(EVENT_TYPES.map((type) => picture.marks(type, kind))).toEqual([0, 0, 0, 0, 0]);
    }
    expect(EVENT_TYPES.flatMap((type) => picture.boxes(type, 'proven'))).toEqual([]);
    expect(picture.desc).toContain('Nothing is proven yet: no poll has read the list.');
    expect(picture.desc).toContain('0 events: 0 by push, 0 recovered by pull.');
  });

  test('one event is one mark in the lane of its type', () => {
    const picture = draw({ events: [event({ type: 'redeem.failed' })] });
    expect(EVENT_TYPES.map((type) => picture.marks(type, 'push'))).toEqual([0, 0, 0, 0, 1]);
    expect(picture.desc).toContain('1 event: 1 by push, 0 recovered by pull.');
    expect(picture.desc).toContain('redeem.failed: 1 by push, 0 by pull.');
  });

  test('events by push, recovered by pull, late and pruned have marks of their own', () => {
    const at = (minutes: number) => NOW - minutes * 60_000;
    const picture = draw({
      events: [
        event({ at: at(100) }),
        event({ at: at(200) }),
        event({ at: at(300), source: 'pull' }),
        event({ at: at(400), source: 'pull', late: true }),
        event({ at: at(500), pruned: true }),
        event({ at: at(500), pruned: true, source: 'pull' }),
      ],
    });
    const counts = ['push', 'pull', 'late', 'pruned'].map((kind) => picture.marks('transfer.settled', kind));
    expect(counts).toEqual([2, 2, 1, 2]);
    expect(picture.desc).toContain('6 events: 3 by push, 3 recovered by pull, 1 of them late.');
    expect(picture.desc).toContain('2 pruned events shown at the time of receipt.');
  });

  test('a lane shows its gaps, open or acknowledged, and what is proven between them', () => {
    const who = { by: 'ada', reason: 'books compared', at: NOW };
    const picture = draw({
      state: {
        gaps: [
          gap(NOW - 8 * HOUR, { 'transfer.settled': NOW - 7 * HOUR }, who),
          gap(NOW - 4 * HOUR, { 'transfer.settled': NOW - 2 * HOUR, 'redeem.failed': NOW - 3 * HOUR }),
        ],
      },
    });
    const width = (hours: number) => expect.closeTo((hours / 10) * (RIGHT - LEFT), 0);
    const widths = (type: string, kind: string) =>
      picture.boxes(type, kind).map(({ left, right }) => right - left);
    expect(widths('transfer.settled', 'acknowledged')).toEqual([width(1)]);
    expect(widths('transfer.settled', 'open')).toEqual([width(2)]);
    expect(widths('transfer.settled', 'proven')).toEqual([width(2), width(3), width(23 / 12)]);
    expect(widths('redeem.failed', 'open')).toEqual([width(1)]);
    expect(widths('redeem.failed', 'proven')).toEqual([width(6), width(35 / 12)]);
    expect(widths('accept.confirmed', 'proven')).toEqual([width(119 / 12)]);
    expect(picture.boxes('transfer.settled', 'open')[0]?.text).toBe(
      'Open gap 2026-11-21 06:00:00 to 2026-11-21 08:00:00: not-reached',
    );
    expect(picture.desc).toContain(
      'Proven up to 2026-11-21 09:55:00, except in 1 open gap and in 1 acknowledged gap.',
    );
    expect(picture.desc).toContain('ada acknowledged it at 2026-11-21 10:00:00: books compared');
  });

  test('a gap of a millisecond can be seen, and two that would touch are one box that says so', () => {
    const middle = NOW - 5 * HOUR;
    const short = (from: number) => gap(from, { 'transfer.failed': from + 1 });
    const one = draw({ state: { gaps: [short(middle)] } }).boxes('transfer.failed', 'open');
    expect(one.map(({ left, right }) => Math.round(right - left))).toEqual([5]);
    const two = draw({ state: { gaps: [short(middle), short(middle + 1_000)] } });
    expect(two.boxes('transfer.failed', 'open')).toHaveLength(1);
    expect(two.boxes('transfer.failed', 'open')[0]?.text).toMatch(/: not-reached, and 1 more$/);
  });

  test('a short gap at either end of the time stays inside its lane', () => {
    const picture = draw({
      state: {
        watermark: NOW,
        gaps: [
          gap(NOW - 10 * HOUR, { 'redeem.failed': NOW - 10 * HOUR + 1 }),
          gap(NOW - 1, { 'redeem.failed': NOW }),
        ],
      },
    });
    const [first, last] = picture.boxes('redeem.failed', 'open');
    expect(first?.left).toBe(LEFT);
    expect(last?.right).toBe(RIGHT);
  });

  test('a watermark in the future is marked at the edge, with its time and a warning', () => {
    const picture = draw({ state: { watermark: NOW + 400 * 24 * HOUR }, events: [event()] });
    expect(picture.texts.map(({ text }) => text)).toContain('watermark 2027-12-26 10:00:00 →');
    expect(picture.find('watermark').map(({ attributes }) => attributes['d'])).toEqual([
      expect.stringMatching(`^M${RIGHT} `),
    ]);
    expect(picture.desc).toContain('The watermark is in the future, because a clock was wrong.');
    // Now is still far enough to the right to see the events.
    const now = Number(picture.find('now')[0]?.attributes['d']?.match(/^M([\d.]+)/)?.[1]);
    expect(now).toBeGreaterThan(LEFT + 0.7 * (RIGHT - LEFT));
  });

  test('events from before the start date are shown', () => {
    const events = Array.from({ length: 50 }, (_, index) => event({ at: NOW - (20 + index / 10) * HOUR }));
    const picture = draw({ events });
    expect(picture.marks('transfer.settled', 'push')).toBe(50);
    const proven = picture.boxes('transfer.settled', 'proven')[0]?.left ?? 0;
    expect(proven).toBeGreaterThan(LEFT + 300);
  });

  test('events of other types share a lane, which no gap and no proof covers', () => {
    const picture = draw({
      events: [event({ type: 'card.issued' }), event({ type: 'card.lost', at: NOW - 3 * HOUR })],
    });
    expect(picture.lanes).toEqual([...EVENT_TYPES, 'other types']);
    expect(picture.marks('other types', 'push')).toBe(2);
    expect(picture.boxes('other types', 'proven')).toEqual([]);
    expect(picture.desc).toContain('other types: 2 by push, 0 by pull, not covered by the watermark.');
  });

  test('the picture is valid XML whatever people, types and reasons are called', () => {
    const evil = `</desc><script>"&'\u0000\u001b\ud800\ufffe\u{1f980}]]>`;
    const who = { by: evil, reason: evil, at: NOW };
    const picture = draw({
      events: [event({ type: evil })],
      state: { gaps: [gap(NOW - HOUR, { 'transfer.settled': NOW, [evil]: NOW }, who)] },
    });
    const readable = `</desc><script>"&'\ufffd\ufffd\ufffd\ufffd\u{1f980}]]>`;
    expect(picture.desc).toContain(readable);
    expect(picture.boxes('transfer.settled', 'acknowledged')[0]?.text).toContain(readable);
    expect(picture.svg).not.toContain('<script');
  });

  test('the picture needs nothing from outside, and has a dark scheme', () => {
    const { svg } = draw({ events: [event()] });
    expect(svg.replace('xmlns="http://www.w3.org/2000/svg"', '')).not.toMatch(
      /https?:|href|@import|@font-face/,
    );
    expect(svg).not.toMatch(/url\((?!#)/);
    expect(svg).toContain('@media (prefers-color-scheme: dark)');
  });
});

/** An inbox whose events are all done. */
function listing(events: readonly UnknownEvent[]): Parameters<typeof readCoverage>[0] {
  const records = events.map((event) => ({
    ...{ id: event.id, type: event.type, state: 'done' as const, attempts: 1, origin: 'pull' as const },
    ...{ receivedAt: NOW, updatedAt: NOW, dueAt: null, lastError: null, history: [], event },
    ...{ key: null, traceparent: null },
  }));
  return {
    pollState: () => memoryInbox().pollState(),
    async list({ state, limit = 100, after }) {
      if (state !== 'done') return [];
      const from = after === undefined ? 0 : Number(after.slice('evt_'.length)) + 1;
      return records.slice(from, from + limit);
    },
  };
}

describe('what the picture shows of an inbox', () => {
  test('all events of an inbox are read, whatever their state and however many', async () => {
    const inbox = memoryInbox();
    const at = (index: number) => new Date(NOW + index * 1_000).toISOString();
    const listed = Array.from({ length: 1_500 }, (_, index) => ({
      ...exampleEvent('transfer.failed'),
      created_at: at(index),
    }));
    await inbox.record(listed, { dueInMs: 0, origin: 'pull' });
    const pushed = { ...exampleEvent('redeem.failed'), created_at: at(0) };
    const claim = await inbox.claim(pushed, { leaseMs: 60_000, origin: 'push' });
    if (claim.state === 'claimed') await inbox.complete(claim.lease);

    const { events, state } = await readCoverage(inbox, { now: NOW, late: [listed[7]?.id ?? ''] });
    expect(state).toEqual(await inbox.pollState());
    expect(events.filter(({ source }) => source === 'pull')).toHaveLength(1_500);
    expect(events.filter(({ late }) => late).map((late) => late.at)).toEqual([NOW + 7_000]);
    expect(events.filter(({ source }) => source === 'push')).toEqual([
      { count: 1, type: 'redeem.failed', at: NOW, source: 'push', late: false, pruned: false },
    ]);
  });

  test('many events are read into a bounded number of groups, and the picture shows every one of them', async () => {
    const examples = EVENT_TYPES.map((type) => exampleEvent(type));
    const listed = Array.from({ length: 30_000 }, (_, index) => ({
      ...(examples[index % 5] ?? exampleEvent('redeem.failed')),
      id: `evt_${index}`,
      created_at: new Date(NOW - HOUR + 120 * index).toISOString(),
    }));
    const old = { ...exampleEvent('redeem.failed'), created_at: '1970-01-01T00:00:00.000Z' };
    const inbox = listing([...listed, old]);
    const data = await readCoverage(inbox, { now: NOW });
    expect(data.events.length).toBeLessThanOrEqual(20_000);
    expect(data.events.length).toBeGreaterThan(5_000);
    const picture = open(renderCoverage({ ...data, state: { ...data.state, since: NOW - HOUR } }));
    expect(picture.desc).toContain('30,001 events: 0 by push, 30,001 recovered by pull.');
    expect(picture.desc).toContain('1 event outside this time not shown.');
    expect(picture.marks('redeem.failed', 'pull')).toBe((RIGHT - LEFT) / 3);
  });

  test('an event that is done while the pages are read is counted once', async () => {
    const inbox = memoryInbox();
    const event = exampleEvent('transfer.failed');
    await inbox.record([event], { dueInMs: 0, origin: 'pull' });
    const reading: typeof inbox = {
      ...inbox,
      async list(query) {
        const page = await inbox.list(query);
        if (query.state === 'received') {
          const claim = await inbox.claim(event, { leaseMs: 60_000, origin: 'pull' });
          if (claim.state === 'claimed') await inbox.complete(claim.lease);
        }
        return page;
      },
    };
    const { events } = await readCoverage(reading, { now: NOW });
    expect(events).toMatchObject([{ count: 1, type: 'transfer.failed' }]);
    expect(await inbox.find(event.id)).toMatchObject({ state: 'done' });
  });

  test('a pruned event is read with the time of its receipt', async () => {
    const inbox = memoryInbox();
    const old = { ...exampleEvent('redeem.failed'), created_at: '2001-01-01T00:00:00.000Z' };
    const claim = await inbox.claim(old, { leaseMs: 60_000, origin: 'push' });
    if (claim.state === 'claimed') await inbox.complete(claim.lease);
    await inbox.prune({ olderThanMs: 0 });
    const { events } = await readCoverage(inbox, { now: NOW });
    const record = await inbox.find(old.id);
    expect(events).toEqual([event({ type: 'redeem.failed', at: record?.receivedAt ?? 0, pruned: true })]);
  });
});
