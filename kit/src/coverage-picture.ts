import { createdAtMs, EVENT_TYPES, INBOX_STATES, type InboxOperations, type PollState } from 'stablehooks';
import { recordsOf } from './io/inbox.js';
import { countOf } from './io/output.js';

/** The facts about an inbox that the picture shows. Times are epoch ms. */
export interface CoverageData {
  /** When the inbox was read. */
  readonly now: number;
  readonly state: Pick<PollState, 'since' | 'watermark' | 'gaps'>;
  readonly events: readonly CoverageEvents[];
}

/** Events that the picture shows in the same way. */
export interface CoverageEvents {
  readonly count: number;
  /** One of the five types, or {@link OTHER}. */
  readonly type: string;
  /** When the first of them was created, or received if they are pruned. */
  readonly at: number;
  /** Their first origin: a delivery, or the list. */
  readonly source: 'push' | 'pull';
  /** Whether they were listed only after the watermark had passed them. */
  readonly late: boolean;
  /** Whether their JSON, which contains `created_at`, has been removed from the inbox. */
  readonly pruned: boolean;
}

/** Options of {@link readCoverage}. */
interface ReadOptions {
  /** Epoch ms. */
  readonly now: number;
  /** The ids of late events. Only the report of a poll has them, not the inbox. */
  readonly late?: readonly string[] | undefined;
  /** Called after every 500 events with the number of events read so far. Reading continues when it has resolved. */
  readonly onRead?: ((read: number) => Promise<void>) | undefined;
}

/** Done events come last, because most events are done and stay so. */
const READING_ORDER = [...INBOX_STATES.filter((state) => state !== 'done'), 'done'] as const;
/** The number of remembered ids of events that can change their state during the reading. Beyond it, some count twice. */
const MAX_IDS = 100_000;

/**
 * Reads what {@link renderCoverage} needs from an inbox: the poller's state, and the time and origin of the events.
 * Events are counted while they are read, so the memory does not depend on their number.
 */
export async function readCoverage(
  inbox: Pick<InboxOperations, 'pollState' | 'list'>,
  { now, late = [], onRead }: ReadOptions,
): Promise<CoverageData> {
  const lateIds = new Set(late);
  const ids = new Set<string>();
  const tally = createTally();
  let read = 0;
  for (const state of READING_ORDER) {
    for await (const { id, type, origin, receivedAt, event } of recordsOf(inbox, state)) {
      if (ids.has(id)) continue;
      if (state !== 'done' && ids.size < MAX_IDS) ids.add(id);
      tally.add({
        type: isCovered(type) ? type : OTHER,
        at: event === null ? receivedAt : createdAtMs(event),
        source: origin === 'pull' ? 'pull' : 'push',
        late: lateIds.has(id),
        pruned: event === null,
      });
      read += 1;
      if (read % 500 === 0) await onRead?.(read);
    }
  }
  return { now, state: await inbox.pollState(), events: tally.events() };
}

/** The maximum number of groups of events: some dozens in each column of a lane. */
const MAX_GROUPS = 20_000;

/** Counts events by everything that the picture shows. Groups become longer when there are too many. */
function createTally() {
  let groups = new Map<string, CoverageEvents>();
  let stepMs = 100;

  function put(event: CoverageEvents): void {
    const { count, type, at, source, late, pruned } = event;
    const key = [type, Math.floor(at / stepMs), source, late, pruned].join();
    const group = groups.get(key);
    if (group === undefined) groups.set(key, event);
    else groups.set(key, { ...group, count: group.count + count, at: Math.min(group.at, at) });
  }

  return {
    add(event: Omit<CoverageEvents, 'count'>): void {
      put({ ...event, count: 1 });
      while (groups.size > MAX_GROUPS) {
        const before = [...groups.values()];
        do stepMs *= 2;
        while (new Set(before.map(({ at }) => Math.floor(at / stepMs))).size > MAX_GROUPS / 2);
        groups = new Map();
        for (const group of before) put(group);
      }
    },
    events: () => [...groups.values()],
  };
}

function isCovered(type: string): boolean {
  return EVENT_TYPES.some((each) => each === type);
}

/**
 * Draws the coverage of an inbox as an SVG: for each type a lane over time with its proven spans, its gaps, and the number
 * of events by push and by the list. The picture needs no other file, follows the reader's light or dark scheme, and has all
 * facts in words in its `<desc>`. It contains no ids and no payloads. Its size depends on its width in pixels and not on the
 * number of events.
 */
export function renderCoverage(data: CoverageData): string {
  const span = toSpan(data);
  const lanes = toLanes(data, span);
  const words = toWords(data, { span, lanes });
  const bottom = LANES_TOP + lanes.length * LANE_HEIGHT;
  const height = bottom + 132;
  const tallest = Math.max(0, ...lanes.flatMap(({ bars }) => [...bars.push.all, ...bars.pull.all]));
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-labelledby="coverage-title coverage-desc">`,
    `<title id="coverage-title">${escapeXml(words.title)}</title>`,
    `<desc id="coverage-desc">${escapeXml(words.facts.join('\n'))}</desc>`,
    STYLE,
    PATTERNS,
    `<rect class="page" width="${WIDTH}" height="${height}"/>`,
    `<text class="title" x="20" y="32">${escapeXml(words.title)}</text>`,
    ...words.summary.map((line, row) => `<text x="20" y="${54 + row * 18}">${escapeXml(line)}</text>`),
    drawAxis(span, bottom),
    ...lanes.map((lane, index) => drawLane(lane, { y: LANES_TOP + index * LANE_HEIGHT, span, tallest })),
    drawMoments(data, { span, bottom }),
    drawLegend(bottom + 66, words.scale(tallest)),
    '</svg>\n',
  ].join('\n');
}

// Lengths are in the SVG's user units: pixels at its own width.
const WIDTH = 1_000;
const PLOT = { left: 176, right: 980 } as const;
const LANES_TOP = 162;
const LANE_HEIGHT = 73;
/** The width of a column. Events are counted per column. */
const BIN = 3;
const BINS = (PLOT.right - PLOT.left) / BIN;
/** Heights within a lane. Bars of push go up and bars of the list go down, so they differ without colour. */
const LANE = { late: 9, push: 33, pull: 35, band: 57, bandHeight: 8, gap: 53, gapHeight: 16 } as const;
const BAR = { min: 5, max: 16 } as const;
/** The width of the shortest gaps. */
const MIN_GAP_WIDTH = 5;

/** The time range of the picture, epoch ms. */
interface Span {
  readonly from: number;
  readonly until: number;
}

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/**
 * From the start date, or the first event before it, to now. Outliers must not squeeze everything else into one pixel:
 * single events with an absurd date are only counted, a watermark far in the future is marked at the edge, and a gap that
 * begins at an unknown time before the start date is cut there.
 */
function toSpan({ now, state: { since, watermark, gaps }, events }: CoverageData): Span {
  const known = [since, watermark, firstOf(events), ...gaps.map(({ from }) => Math.max(from, since ?? from))];
  const first = known.reduce<number>((least, time) => Math.min(least, time ?? least), now);
  const from = Math.min(first, now - MINUTE);
  const until = Math.min(Math.max(now, watermark ?? now), now + (now - from) / 4);
  return { from, until };
}

/** The time before which less than 1 % of the events were created. */
function firstOf(events: CoverageData['events']): number | undefined {
  let rest = Math.floor(sumOf(events) / 100);
  for (const { at, count } of events.toSorted((a, b) => a.at - b.at)) {
    rest -= count;
    if (rest < 0) return at;
  }
  return undefined;
}

function sumOf(events: CoverageData['events']): number {
  return events.reduce((sum, { count }) => sum + count, 0);
}

function toX(time: number, { from, until }: Span): number {
  const share = (time - from) / (until - from);
  return PLOT.left + Math.min(1, Math.max(0, share)) * (PLOT.right - PLOT.left);
}

/** The number of events in each column: of all events, and of events that are not pruned. */
interface Bars {
  readonly all: readonly number[];
  readonly dated: readonly number[];
}

interface Stretch extends Span {
  readonly text: string;
}

interface Lane {
  readonly name: string;
  /** The number of events of this lane, and of those outside of the picture. */
  readonly counts: Readonly<Record<'push' | 'pull' | 'late' | 'pruned' | 'outside', number>>;
  readonly bars: Readonly<Record<'push' | 'pull', Bars>>;
  /** The columns with late events. */
  readonly late: readonly number[];
  readonly open: readonly Stretch[];
  readonly acknowledged: readonly Stretch[];
  /** The proven span, which includes the gaps; `null` before a poll has read the list. */
  readonly proven: Span | null;
  /** The span that is not proven yet; `null` in the lane of other types, which no poll proves. */
  readonly pending: Span | null;
}

const OTHER = 'other types';

function toLanes(data: CoverageData, span: Span): readonly Lane[] {
  const tallies = new Map<string, Tally>(EVENT_TYPES.map((type) => [type, emptyTally()]));
  const others = emptyTally();
  for (const event of data.events) {
    const tally = tallies.get(event.type) ?? others;
    if (tally === others) tallies.set(OTHER, others);
    countEvents(tally, event, span);
  }
  return [...tallies].map(([name, { late, ...counted }]) => ({
    name,
    ...counted,
    late: [...late],
    ...toCoverage(name, { data, span }),
  }));
}

/** The counts of the events of a lane. */
interface Tally {
  readonly counts: Record<keyof Lane['counts'], number>;
  readonly bars: Readonly<Record<'push' | 'pull', Readonly<Record<keyof Bars, number[]>>>>;
  readonly late: Set<number>;
}

function emptyTally(): Tally {
  const bins = () => ({ all: new Array<number>(BINS).fill(0), dated: new Array<number>(BINS).fill(0) });
  return {
    counts: { push: 0, pull: 0, late: 0, pruned: 0, outside: 0 },
    bars: { push: bins(), pull: bins() },
    late: new Set(),
  };
}

function countEvents(
  { counts, bars, late }: Tally,
  { count, at, source, late: isLate, pruned }: CoverageEvents,
  { from, until }: Span,
): void {
  counts[source] += count;
  if (isLate) counts.late += count;
  if (pruned) counts.pruned += count;
  if (at < from || at > until) {
    counts.outside += count;
    return;
  }
  const bin = Math.min(BINS - 1, Math.floor(((at - from) / (until - from)) * BINS));
  const { all, dated } = bars[source];
  all[bin] = (all[bin] ?? 0) + count;
  if (!pruned) dated[bin] = (dated[bin] ?? 0) + count;
  if (isLate) late.add(bin);
}

function toCoverage(
  name: string,
  { data, span }: { readonly data: CoverageData; readonly span: Span },
): Pick<Lane, 'proven' | 'open' | 'acknowledged' | 'pending'> {
  const { since, watermark, gaps } = data.state;
  if (name === OTHER) return { proven: null, open: [], acknowledged: [], pending: null };
  const mine = gaps.flatMap(({ from, until, reason, acknowledged }) => {
    const end = until[name];
    if (end === undefined || end <= from) return [];
    const text = `${toTime(from)} to ${toTime(end)}: ${reason}${acknowledged ? `, acknowledged by ${acknowledged.by}` : ''}`;
    return [{ from, until: end, text, open: acknowledged === null }];
  });
  const begin = since ?? span.from;
  return {
    proven: watermark === null ? null : { from: begin, until: watermark },
    open: mine.filter(({ open }) => open),
    acknowledged: mine.filter(({ open }) => !open),
    pending: { from: watermark ?? begin, until: data.now },
  };
}

interface Words {
  readonly title: string;
  /** The lines below the title, two or three. */
  readonly summary: readonly string[];
  /** Everything that the picture shows. */
  readonly facts: readonly string[];
  readonly scale: (tallest: number) => string;
}

/** How many gaps are named in words. */
const MAX_GAPS_NAMED = 50;

function toWords(
  { state: { since, watermark, gaps }, now, events }: CoverageData,
  { span, lanes }: { readonly span: Span; readonly lanes: readonly Lane[] },
): Words {
  const total = (name: keyof Lane['counts']) => lanes.reduce((sum, { counts }) => sum + counts[name], 0);
  const title = `Coverage from ${toTime(span.from)} to ${toTime(span.until)} UTC`;
  const counted = toSentence([
    `${countOf(sumOf(events), 'event')}: ${number(total('push'))} by push, ${number(total('pull'))} recovered by pull`,
    total('late') > 0 && `${number(total('late'))} of them late`,
  ]);
  const hidden = [
    total('outside') > 0 && `${countOf(total('outside'), 'event')} outside this time not shown.`,
    total('pruned') > 0 && `${countOf(total('pruned'), 'pruned event')} shown at the time of receipt.`,
  ].filter((line) => line !== false);
  const verdict = toVerdict({ since, watermark, gaps }, now);
  const named = gaps.slice(0, MAX_GAPS_NAMED).map(({ from, until, reason, acknowledged }) => {
    const spans = Object.entries(until).map(([type, end]) => `${type} until ${toTime(end)}`);
    const by =
      acknowledged === null
        ? 'It is open.'
        : `${acknowledged.by} acknowledged it at ${toTime(acknowledged.at)}: ${acknowledged.reason}`;
    return `Gap after ${toTime(from)} (${reason}): ${spans.join(', ')}. ${by}`;
  });
  return {
    title,
    summary: [verdict, counted, hidden.join(' ')].filter((line) => line !== ''),
    facts: [
      verdict,
      'Proven: every event of the five types created since the start date is in the inbox.',
      `Start date: ${since === null ? 'none' : toTime(since)}. Watermark: ${watermark === null ? 'none' : toTime(watermark)}. Now: ${toTime(now)}.`,
      counted,
      ...hidden,
      ...lanes.map(({ name, counts: { push, pull, late } }) =>
        toSentence([
          `${name}: ${number(push)} by push, ${number(pull)} by pull`,
          late > 0 && `${number(late)} late`,
          name === OTHER && 'not covered by the watermark',
        ]),
      ),
      ...named,
      ...(gaps.length > MAX_GAPS_NAMED ? [`And ${countOf(gaps.length - MAX_GAPS_NAMED, 'more gap')}.`] : []),
    ],
    scale: (tallest) =>
      tallest === 0
        ? 'No events'
        : `Tallest bar: ${countOf(tallest, 'event')} in ${toDuration((span.until - span.from) / BINS)}`,
  };
}

function toVerdict({ watermark, gaps }: CoverageData['state'], now: number): string {
  if (watermark === null) return 'Nothing is proven yet: no poll has read the list.';
  const open = gaps.filter(({ acknowledged }) => acknowledged === null).length;
  const known = gaps.length - open;
  const except = [
    open > 0 ? [countOf(open, 'open gap')] : [],
    known > 0 ? [countOf(known, 'acknowledged gap')] : [],
  ].flat();
  return [
    toSentence([
      `Proven up to ${toTime(watermark)}`,
      except.length > 0 && `except in ${except.join(' and in ')}`,
    ]),
    ...(watermark > now ? ['The watermark is in the future, because a clock was wrong.'] : []),
  ].join(' ');
}

function toSentence(parts: readonly (string | false)[]): string {
  return `${parts.filter((part) => part !== false).join(', ')}.`;
}

function number(value: number): string {
  return value.toLocaleString('en-US');
}

function toTime(time: number): string {
  return new Date(time).toISOString().slice(0, 19).replace('T', ' ');
}

function toDuration(ms: number): string {
  const [size, unit] = (
    [
      [DAY, 'd'],
      [HOUR, 'h'],
      [MINUTE, 'min'],
    ] as const
  ).find(([size]) => ms >= size) ?? [1_000, 's'];
  return `${Number((ms / size).toPrecision(2))} ${unit}`;
}

/** Distances between the marks of the axis. */
const STEPS = [
  ...[1, 2, 5, 15, 30].map((seconds) => seconds * 1_000),
  ...[1, 2, 5, 15, 30].map((minutes) => minutes * MINUTE),
  ...[1, 2, 3, 6, 12].map((hours) => hours * HOUR),
  ...[1, 2, 7, 14, 30, 90, 180, 365, 730, 1_825, 3_650].map((days) => days * DAY),
] as const;
const MAX_AXIS_MARKS = 9;

function drawAxis(span: Span, y: number): string {
  const length = span.until - span.from;
  const step = STEPS.find((size) => length / size <= MAX_AXIS_MARKS) ?? length / MAX_AXIS_MARKS;
  const marks: string[] = [];
  let date = '';
  for (let time = Math.ceil(span.from / step) * step; time <= span.until; time += step) {
    const [day = '', clock = ''] = toTime(time).split(' ');
    const x = round(toX(time, span));
    const shownClock = step < MINUTE ? clock : clock.slice(0, 5);
    // A label in the middle of the last mark would be cut.
    const anchor = x > PLOT.right - 20 ? 'end' : 'middle';
    const labelX = anchor === 'end' ? PLOT.right + 15 : x;
    const labels = step >= DAY ? [day] : [shownClock, ...(day === date ? [] : [day])];
    date = day;
    marks.push(
      `<path class="grid" d="M${x} ${LANES_TOP}V${y + 5}"/>`,
      ...labels.map(
        (label, row) =>
          `<text class="small ${anchor}" x="${labelX}" y="${y + 18 + row * 14}">${label}</text>`,
      ),
    );
  }
  return `<g>${marks.join('')}<text class="small" x="20" y="${y + 18}">created at (UTC)</text></g>`;
}

function drawLane(
  { name, counts, bars, late, proven, open, acknowledged, pending }: Lane,
  { y, span, tallest }: { readonly y: number; readonly span: Span; readonly tallest: number },
): string {
  const height = (events: number) => BAR.min + Math.sqrt(events / tallest) * (BAR.max - BAR.min);
  const drawBars = (kind: string, bins: readonly number[], { base, sign }: typeof UP | typeof DOWN) => {
    const d = bins.flatMap((events, bin) =>
      events === 0 ? [] : `M${PLOT.left + (bin + 0.5) * BIN} ${base}v${round(sign * height(events))}`,
    );
    return d.length === 0 ? '' : `<path class="${kind}" d="${d.join('')}"/>`;
  };
  const onlyPruned = ({ all, dated }: Bars) => all.map((events, bin) => (events === dated[bin] ? 0 : events));
  const boxes = { open: toBoxes(open, span), acknowledged: toBoxes(acknowledged, span) };
  const caption = `${number(counts.push)} push, ${number(counts.pull)} pull`;
  return [
    `<g transform="translate(0 ${y})"><title>${escapeXml(`${name}: ${caption}`)}</title>`,
    `<path class="line" d="M20 0H${PLOT.right}"/>`,
    `<text class="name" x="20" y="27">${escapeXml(name)}</text>`,
    `<text class="small" x="20" y="44">${caption}</text>`,
    pending === null ? '<text class="small" x="20" y="61">not covered</text>' : drawPending(pending, span),
    ...(proven === null ? [] : drawProven(proven, { span, gaps: [...boxes.open, ...boxes.acknowledged] })),
    ...boxes.acknowledged.map((box) => drawGap('acknowledged', box)),
    ...boxes.open.map((box) => drawGap('open', box)),
    drawBars('pruned', onlyPruned(bars.push), UP),
    drawBars('pruned', onlyPruned(bars.pull), DOWN),
    drawBars('push', bars.push.dated, UP),
    drawBars('pull', bars.pull.dated, DOWN),
    late.length === 0 ? '' : `<path class="late" d="${late.map(toDiamond).join('')}"/>`,
    '</g>',
  ]
    .filter((line) => line !== '')
    .join('\n');
}

const UP = { base: LANE.push, sign: -1 } as const;
const DOWN = { base: LANE.pull, sign: 1 } as const;

function toDiamond(bin: number): string {
  return `M${PLOT.left + (bin + 0.5) * BIN} ${LANE.late - 5}l4.5 5l-4.5 5l-4.5 -5z`;
}

function drawPending({ from, until }: Span, span: Span): string {
  const [left, right] = [round(toX(from, span)), round(toX(until, span))];
  if (right <= left) return '';
  return `<path class="pending" d="M${left} ${LANE.band + LANE.bandHeight / 2}H${right}"/>`;
}

/** The drawn form of a gap. */
interface Box {
  readonly left: number;
  readonly right: number;
  /** The first gap in words. */
  readonly text: string;
  /** How many more gaps are drawn in the same place. */
  readonly more: number;
}

/** Widens short gaps to make them visible, and merges gaps that would touch. */
function toBoxes(gaps: readonly Stretch[], span: Span): readonly Box[] {
  const boxes: Box[] = [];
  for (const { from, until, text } of gaps.toSorted((a, b) => a.from - b.from)) {
    const [begin, end] = [toX(from, span), toX(until, span)];
    const width = Math.max(MIN_GAP_WIDTH, end - begin);
    const left = Math.min(PLOT.right - width, Math.max(PLOT.left, (begin + end - width) / 2));
    const last = boxes.at(-1);
    if (last === undefined || left > last.right + 1) boxes.push({ left, right: left + width, text, more: 0 });
    else
      boxes[boxes.length - 1] = { ...last, right: Math.max(last.right, left + width), more: last.more + 1 };
  }
  return boxes;
}

function drawGap(kind: 'open' | 'acknowledged', { left, right, text, more }: Box): string {
  const title = `${kind === 'open' ? 'Open gap' : 'Gap'} ${text}${more > 0 ? `, and ${more} more` : ''}`;
  return `<rect class="${kind}" x="${round(left)}" y="${LANE.gap}" width="${round(right - left)}" height="${LANE.gapHeight}"><title>${escapeXml(title)}</title></rect>`;
}

/** The parts of the proven span that no gap covers. */
function drawProven(
  proven: Span,
  { span, gaps }: { readonly span: Span; readonly gaps: readonly Box[] },
): readonly string[] {
  const parts: string[] = [];
  const draw = (left: number, right: number) => {
    const width = round(right - left);
    if (width <= 0) return;
    parts.push(
      `<rect class="proven" x="${round(left)}" y="${LANE.band}" width="${width}" height="${LANE.bandHeight}"/>`,
    );
  };
  let left = toX(proven.from, span);
  const end = toX(proven.until, span);
  for (const gap of gaps.toSorted((a, b) => a.left - b.left)) {
    draw(left, Math.min(gap.left, end));
    left = Math.max(left, gap.right);
  }
  draw(left, end);
  return parts;
}

/** The start date, the watermark and now, as lines through all lanes with a label above. */
function drawMoments(
  { now, state: { since, watermark } }: CoverageData,
  { span, bottom }: { readonly span: Span; readonly bottom: number },
): string {
  const drawn = [
    { kind: 'since', label: 'start date', time: since },
    { kind: 'watermark', label: 'watermark', time: watermark },
    { kind: 'now', label: 'now', time: now },
  ].flatMap(({ kind, label, time }, row) => {
    if (time === null) return [];
    const [x, y] = [round(toX(time, span)), LANES_TOP - 36 + row * 14];
    const [anchor, shift] = x > WIDTH / 2 ? ['end', 4] : ['start', -4];
    const text = kind === 'now' ? label : `${label} ${toTime(time)}${time > span.until ? ' →' : ''}`;
    return {
      line: `<path class="moment ${kind}" d="M${x} ${y + 4}V${bottom}"/>`,
      label: `<text class="small label ${anchor}" x="${x + shift}" y="${y}">${text}</text>`,
    };
  });
  // The labels are above all lines.
  return [...drawn.map(({ line }) => line), ...drawn.map(({ label }) => label)].join('\n');
}

function drawLegend(y: number, scale: string): string {
  const at = (index: number) => ({ x: PLOT.left + (index % 4) * 186, y: y + Math.floor(index / 4) * 22 });
  const band = (kind: string, height: number) =>
    `<rect class="${kind}" y="${-height / 2}" width="22" height="${height}"/>`;
  const items = [
    ['proven', band('proven', LANE.bandHeight)],
    ['open gap', band('open', LANE.gapHeight)],
    ['acknowledged gap', band('acknowledged', LANE.gapHeight)],
    ['not proven yet', '<path class="pending" d="M0 0H22"/>'],
    ['by push', '<path class="push" d="M5 7v-9M11 7v-14M17 7v-6"/>'],
    ['recovered by pull', '<path class="pull" d="M5 -7v6M11 -7v14M17 -7v9"/>'],
    ['listed late', '<path class="late" d="M11 -5l4.5 5l-4.5 5l-4.5 -5z"/>'],
    ['pruned, at its receipt', '<path class="pruned" d="M5 7v-9M11 7v-14M17 7v-6"/>'],
  ] as const;
  const drawn = items.map(([label, mark], index) => {
    const place = at(index);
    return `<g transform="translate(${place.x} ${place.y})">${mark}<text class="small" x="30" y="4">${label}</text></g>`;
  });
  const last = at(items.length);
  return `<g id="coverage-legend">${drawn.join('\n')}<text class="small" x="${last.x}" y="${last.y + 4}">${escapeXml(scale)}</text></g>`;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

/** Escapes text for XML 1.0, which excludes control characters and lone surrogates. */
function escapeXml(text: string): string {
  return text
    .replaceAll(/[^\t\n\r\u0020-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/gu, '\uFFFD')
    .replaceAll(/[&<>"]/g, (character) => `&#${character.codePointAt(0)};`);
}

/** The colours differ in lightness, and no two marks share shape and place, so the picture is readable without colour. */
const STYLE = `<style>
text { font: 13px system-ui, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif; fill: #1f2328 }
.title { font-size: 18px; font-weight: 600 }
.name { font-weight: 600 }
.small { font-size: 11px; fill: #59636e }
.middle { text-anchor: middle }
.end { text-anchor: end }
.page { fill: #ffffff }
.label { paint-order: stroke; stroke: #ffffff; stroke-width: 4; stroke-linejoin: round }
.grid, .line { stroke: #e6eaef; fill: none }
.proven { fill: #1a7f37 }
.open { fill: url(#coverage-open); stroke: #b3001b; stroke-width: 1.5 }
.acknowledged { fill: url(#coverage-acknowledged); stroke: #6e7781 }
#coverage-open rect { fill: #ffd7d9 }
#coverage-open path { stroke: #b3001b; stroke-width: 2 }
#coverage-acknowledged rect { fill: #f3f4f6 }
#coverage-acknowledged circle { fill: #6e7781 }
.pending { stroke: #8c959f; stroke-width: 2; stroke-dasharray: 2 4; fill: none }
.push { stroke: #0a53be; stroke-width: 2.4; fill: none }
.pull { stroke: #d9730d; stroke-width: 2.4; fill: none }
.pruned { stroke: #b6bec8; stroke-width: 2.4; fill: none }
.late { fill: #ffffff; stroke: #6f2da8; stroke-width: 1.6 }
.moment { stroke: #59636e; fill: none }
.since { stroke-dasharray: 1 3 }
.watermark { stroke: #1a7f37; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.small { fill: #9ba5b0 }
.page { fill: #0d1117 }
.label { stroke: #0d1117 }
.grid, .line { stroke: #262c36 }
.proven { fill: #3fb950 }
.open { stroke: #ff7b72 }
.acknowledged { stroke: #8b949e }
#coverage-open rect { fill: #4a1216 }
#coverage-open path { stroke: #ff7b72 }
#coverage-acknowledged rect { fill: #21262d }
#coverage-acknowledged circle { fill: #9ba5b0 }
.pending { stroke: #6e7681 }
.push { stroke: #79b8ff }
.pull { stroke: #e3913b }
.pruned { stroke: #6e7681 }
.late { fill: #0d1117; stroke: #d2a8ff }
.moment { stroke: #9ba5b0 }
.watermark { stroke: #3fb950 }
}
</style>`;

const PATTERNS = `<defs>
<pattern id="coverage-open" width="6" height="6" patternUnits="userSpaceOnUse"><rect width="6" height="6"/><path d="M-1 7L7 -1M-1 1L1 -1M5 7L7 5"/></pattern>
<pattern id="coverage-acknowledged" width="5" height="5" patternUnits="userSpaceOnUse"><rect width="5" height="5"/><circle cx="2.5" cy="2.5" r="1"/></pattern>
</defs>`;
